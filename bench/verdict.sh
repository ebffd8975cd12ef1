#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to watch workers for hangs, and how soon one is told: a look at many threads (beside py-spy's, where it is in PATH),
# the processor time of dtrun and the speed of workers that compute, with and without --no-look, and the time from standing still to the
# verdict, of a job of PyTorch's gloo too where the system has PyTorch: beside gloo's own time-out.
# Needs Python.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: verdict.sh [--build DIR] [--rounds N] [--seconds N]
  --build DIR   where the project is built (build), best as a release
  --rounds N    rounds of each measurement (5)
  --seconds N   seconds of each round in which workers compute (10)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build rounds=5 seconds=10
. "$top/bench/lib.sh"
read_options "--build --rounds --seconds" "" "$@"
check_number --rounds 2
check_number --seconds 3
find_build launcher/dtrun

say_machine "$(nproc)"
echo "dtrun    $("$build/launcher/dtrun" --version)"
py_spy=$(command -v py-spy || true)
echo "py-spy   ${py_spy:+$(py-spy --version)}${py_spy:-none in PATH}"
echo "loads    $rounds rounds"
exec python3 "$here/verdict/measure.py" "$build/launcher/dtrun" "$rounds" "$seconds" ${py_spy:+"$py_spy"}
