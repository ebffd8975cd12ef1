#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a kill -9 costs a training: from the kill to the next step that was not done before, and how many steps are done twice. The
# model of bench/train.sh on two ranks, a checkpoint every 50 steps: dtrun-train under dtrun, and PyTorch's DDP with torch.save under
# the torchrun of PyTorch 2.6 in the trixie root (scripts/make-root trixie). Killed are a rank of a job on one node, and the agent of
# one of two nodes with all its workers, for which another node stands by.
#
# --goodput: a rank is killed every 30 s instead, for 3 minutes, with a checkpoint every 10 steps. Printed is the share of the time
# that went into steps which were not done before, a step counted with its median time.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: comeback.sh [--build DIR] [--kills N] [--no-torch]
       comeback.sh --goodput [--every SECONDS] [--minutes N] [--build DIR] [--no-torch]
  --build DIR   where the project is built (build), best as a release
  --kills N     of each kind (10; of PyTorch's a third, which take their time)
  --goodput     what a kill of a rank every so many seconds leaves of the time
  --every SECONDS   from one kill to the next (30)
  --minutes N   how long, of each launcher (3)
  --no-torch    ours alone"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build kills=10 every=30 minutes=3 goodput="" no_torch=""
. "$top/bench/lib.sh"
read_options "--build --kills --every --minutes" "--no-torch --goodput" "$@"
check_number --kills 3
check_number --every 4
check_number --minutes 3
find_build launcher/dtrun rendezvous/dtrun-rendezvous worker_runtime/dtrun-train

. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
[ -n "$no_torch" ] || find_torch

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 - "$tmp/tokens.bin" <<'END'
import random, struct, sys
random.seed(1)
open(sys.argv[1], "wb").write(struct.pack("<200000H", *(random.randrange(8192) for _ in range(200000))))
END

say_machine "$(nproc)"
echo "dtrun    $("$build/launcher/dtrun" --version)"
[ -n "$no_torch" ] || echo "torch    $(root_torch trixie)"
# measure ours|theirs WORDS...: what measure.py prints of one of the two
measure() {
    local side=$1
    shift
    if [ "$side" = ours ]; then
        python3 "$here/comeback/measure.py" "$@" "$tmp" "$build"
    elif [ -z "$no_torch" ]; then
        root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=1 TMPDIR="$root_host$tmp" \
            python3 "$root_host$here/comeback/measure.py" "$@" "$root_host$tmp"
    fi
}

if [ -n "$goodput" ]; then
    echo "kills    of a rank, every $every s for $minutes min"
    echo
    measure ours goodput-dtrun "$every" "$minutes"
    measure theirs goodput-torchrun "$every" "$minutes"
else
    echo "kills    $kills of each kind"
    echo
    measure ours dtrun "$kills"
    measure theirs torchrun $(((kills + 2) / 3))
fi
