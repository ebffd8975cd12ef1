#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a kill -9 costs a training: from the kill to the next step that was not done before, and how many steps are done twice. The
# model of bench/train.sh on two ranks, a checkpoint every 50 steps: dtrun-train under dtrun, and PyTorch's DDP with torch.save under
# the torchrun of PyTorch 2.6 in the trixie root (scripts/make-root trixie). Killed are a rank of a job on one node, and the agent of
# one of two nodes with all its workers, for which another node stands by.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: comeback.sh [--build DIR] [--kills N] [--no-torch]
  --build DIR   where the project is built (build), best as a release
  --kills N     of each kind (10; of PyTorch's a third, which take their time)
  --no-torch    ours alone"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build kills=10 no_torch=
. "$top/bench/lib.sh"
read_options "--build --kills" "--no-torch" "$@"
check_number --kills 3
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
echo "kills    $kills of each kind"
echo
python3 "$here/comeback/measure.py" dtrun "$kills" "$tmp" "$build"
[ -n "$no_torch" ] || root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=1 TMPDIR="$root_host$tmp" \
    python3 "$root_host$here/comeback/measure.py" torchrun $(((kills + 2) / 3)) "$root_host$tmp"
