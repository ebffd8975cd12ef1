#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the upload of one large file to an S3 server of this host (OpenStack's Swift, which keeps objects in memory): ours, in
# parts that outlive a failure, beside curl with a signed URL, s3cmd and rclone. "parts" is curl again, with as many requests as
# ours makes, since each costs the server something. The clients take turns in each round; the medians count, of the time and of
# the seconds of processor that the client itself takes.
#
# That server is one process, which is the slowest part of it all. So curl and ours also send to a sink, which throws bytes away
# and answers at once, or 30 ms later as a store that is some way off.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: upload.sh [--build DIR] [--mib N] [--rounds N]
  --build DIR   where the project is built (build), best as a release
  --mib N       size of the file in MiB (256)
  --rounds N    rounds in which each client has a turn (5)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build mib=256 rounds=5
. "$top/bench/lib.sh"
read_options "--build --mib --rounds" "" "$@"
check_number --mib 5
check_number --rounds 3
find_build tests/transfer/tool

. "$top/scripts/lib/packages.sh"
install_packages curl s3cmd rclone python3-swift python3-botocore >&2

say_machine "$(nproc)"
echo "clients  $(curl --version | sed -n '1s/ (.*//p'), $(s3cmd --version), $(rclone version | head -n 1)"
echo
DTRUN_PLUGIN_DIR=$build PYTHONPATH=$top/tests/system:$top/tests/transfer /usr/bin/python3 -B "$here/upload/measure.py" \
    "$build/tests/transfer/tool" "$mib" "$rounds"
