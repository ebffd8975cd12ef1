#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training beside PyTorch 2.6's, in one run on this machine: the same GPT-2 (6 layers, width 384, 6 heads, 256 positions,
# vocabulary 8192: 13.9 million parameters), batches of 4 x 256 tokens for each rank, fp32, AdamW, clipping. One process with two
# threads; then two ranks of one thread: DDP, ZeroRedundancyOptimizer and FSDP beside our stages 0 to 3. PyTorch is that of the trixie root
# (scripts/make-root trixie) with OpenBLAS preloaded, as Debian's default there is the reference BLAS. Rounds alternate; medians of
# steps, least of rounds; without the vault, as PyTorch has none. Then what a copy into it at each step costs, and what a
# checkpoint every 50 steps does.
# Exit status: 0 when measured, met or not; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
. "$top/bench/lib.sh"
. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
read_training_options "$@"
find_build launcher/dtrun worker_runtime/dtrun-train
[ -z "$torch" ] || find_torch

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make_tokens 8192 >"$tmp/tokens.bin"

# theirs MODE: a line of JSON from PyTorch.
theirs() {
    local train=$root_host$here/train/torch_train.py
    if [ "$1" = single ]; then
        root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=2 python3 "$train" single --steps "$steps" --threads 2
    else
        root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=1 \
            python3 -m torch.distributed.run --standalone --nproc-per-node 2 "$train" "$1" --steps "$steps" --threads 1
    fi 2>>"$tmp/log" | grep '^{' | tail -n 1 >>"$tmp/$1" || true
}

# ours NAME STAGE RANKS THREADS [--set KEY=VALUE...]: the same from dtrun-train.
ours() {
    local name=$1 stage=$2 ranks=$3 threads=$4
    shift 4
    rm -f "$tmp/metrics"
    python3 "$here/train/measure.py" "$tmp/metrics" \
        "$build/launcher/dtrun" --standalone --nproc-per-node "$ranks" "$build/worker_runtime/dtrun-train" \
        --config "$here/train/model.json" --set "data.train=$tmp/tokens.bin" --set "zero_optimization.stage=$stage" \
        --set "train.threads=$threads" --set "train.steps=$((steps + 3))" --set "train.metrics=$tmp/metrics" --set train.vault=off "$@" \
        2>>"$tmp/log" >>"$tmp/$name" || {
        tail -n 20 "$tmp/log" >&2
        exit 1
    }
}

for _ in $(seq "$rounds"); do
    [ -z "$torch" ] || theirs single
    ours dtrun-single 0 1 2
    for mode in ddp zero1 fsdp; do
        [ -z "$torch" ] || theirs "$mode"
    done
    for stage in 0 1 2 3; do
        ours "dtrun-stage$stage" "$stage" 2 1
    done
done
ours dtrun-vault 2 2 1 --set train.vault=local --set train.vault_every=1
ours dtrun-saves 2 2 1 --set "train.steps=153" --set "train.save_every=50" --set "train.save_dir=$tmp/checkpoints"
uptime
python3 "$here/train/table.py" "$tmp"
