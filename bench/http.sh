#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What HTTP costs a rendezvous: with the nodes of one job, ten thousand and a thousand of them played by one process, the time and
# size of a scrape and of /status.json, and the latency of the store while somebody scrapes and looks every second, beside that of a
# store that nobody asks. Nodes are silent while it is measured. Needs Python.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: http.sh [--build DIR] [--rounds N] [--seconds N]
  --build DIR   where the project is built (build), best as a release
  --rounds N    rounds of each measurement (5)
  --seconds N   seconds of each round in which the store is measured (3)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build rounds=5 seconds=3
. "$top/bench/lib.sh"
read_options "--build --rounds --seconds" "" "$@"
check_number --rounds 2
check_number --seconds 1
find_build rendezvous/dtrun-rendezvous bench/rendezvous/rdzv_crowd bench/store_bench

say_machine "$(nproc)"
echo "dtrun    $("$build/rendezvous/dtrun-rendezvous" --version)"
echo "loads    $rounds rounds of $seconds s, median"
ulimit -n "$(ulimit -Hn)"
exec python3 "$here/http/measure.py" "$build" "$rounds" "$seconds"
