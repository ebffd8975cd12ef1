#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters beside PyTorch 2.6's, in one run on this machine: the same Llama (8 layers, width 512, 8 heads that read 4, tied head of
# 16384 words: 32.5 million parameters), batches of 2 x 512 tokens, fp32, LoRA of rank 16 for all linear layers, AdamW, clipping; one
# process with two threads. Then the same with all weights trained. PyTorch is that of the trixie root (scripts/make-root trixie) with
# OpenBLAS preloaded. Rounds alternate; medians of steps, least of rounds.
# Exit status: 0 when measured, met or not; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
. "$top/bench/lib.sh"
. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
read_training_options "$@"
find_build worker_runtime/dtrun-train
[ -z "$torch" ] || find_torch

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make_tokens 16384 >"$tmp/tokens.bin"

# theirs MODE: a line of JSON from PyTorch.
theirs() {
    root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=2 python3 "$root_host$here/finetune/torch_lora.py" "$1" \
        --steps "$steps" --threads 2 2>>"$tmp/log" | grep '^{' | tail -n 1 >>"$tmp/$1" || true
}

# ours NAME [--set KEY=VALUE...]: the same from dtrun-train.
ours() {
    local name=$1
    shift
    rm -f "$tmp/metrics"
    python3 "$here/train/measure.py" "$tmp/metrics" "$build/worker_runtime/dtrun-train" --config "$here/finetune/model.json" \
        --set "data.train=$tmp/tokens.bin" --set train.threads=2 --set "train.steps=$((steps + 3))" \
        --set "train.metrics=$tmp/metrics" --set train.vault=off "$@" 2>>"$tmp/log" >>"$tmp/$name" || {
        tail -n 20 "$tmp/log" >&2
        exit 1
    }
}

ours base --set train.steps=4 --set "train.save_dir=$tmp/model"
for _ in $(seq "$rounds"); do
    [ -z "$torch" ] || theirs lora
    ours dtrun-lora --set "model.weights=$tmp/model" --set 'lora={"r":16}'
    [ -z "$torch" ] || theirs full
    ours dtrun-full
done
uptime
python3 "$here/finetune/table.py" "$tmp"
