#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to share a model's work in other ways than by samples, beside PyTorch 2.6, in one run on this machine: the same Llama (8
# layers, width 512, 8 heads that read 4, tied head of 16384 words: 32.5 million parameters) and the same step of 4 x 512 tokens, fp32,
# AdamW, clipping, a thread in each rank. One rank; two with 2 samples each (DDP); two that share each block (parallelize_module with
# columns and rows, and loss_parallel, over gloo); embedding and head are cut by words in both programs. Two stages of a pipeline, a
# micro-batch for each sample, by GPipe (ScheduleGPipe), and ours by 1F1B, interleaved and ZB-H1, which hang in PyTorch 2.6 on gloo. What has no
# counterpart there on processors is ours alone: rows that those share who share blocks, and samples that two ranks share. PyTorch is that
# of the trixie root (scripts/make-root trixie) with OpenBLAS preloaded. Rounds alternate; medians of steps, least of rounds. Then what a
# rank sums beside what theory says, how long that takes beside bench/coll/coll_bench alone, and the ratio that dtrun-train --suggest
# predicts.
# Exit status: 0 when measured, met or not; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
. "$top/bench/lib.sh"
. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
read_training_options "$@"
find_build launcher/dtrun worker_runtime/dtrun-train bench/coll/coll_bench
[ -z "$torch" ] || find_torch

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make_tokens 16384 >"$tmp/tokens.bin"

# theirs MODE RANKS: a line of JSON from PyTorch.
theirs() {
    local script=$root_host$here/parallel/torch_parallel.py words=()
    [ "$2" = 1 ] || words=(-m torch.distributed.run --standalone --nproc-per-node "$2")
    root_run trixie env LD_PRELOAD="$blas" OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo \
        python3 "${words[@]}" "$script" "$1" --steps "$steps" 2>>"$tmp/log" | grep '^{' | tail -n 1 >>"$tmp/$1" || true
}

# ours NAME RANKS [--set KEY=VALUE...]: the same from dtrun-train.
ours() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$tmp/metrics"
    python3 "$here/train/measure.py" "$tmp/metrics" \
        "$build/launcher/dtrun" --standalone --nproc-per-node "$ranks" "$build/worker_runtime/dtrun-train" \
        --config "$here/parallel/model.json" --set "data.train=$tmp/tokens.bin" --set "train.steps=$((steps + 3))" \
        --set "train.metrics=$tmp/metrics" --set train.vault=off "$@" 2>>"$tmp/log" >>"$tmp/dtrun-$name" || {
        tail -n 20 "$tmp/log" >&2
        exit 1
    }
}

for _ in $(seq "$rounds"); do
    [ -z "$torch" ] || theirs single 1
    ours single 1
    [ -z "$torch" ] || theirs data 2
    ours data 2
    [ -z "$torch" ] || theirs tensor 2
    ours tensor 2 --set parallel.tensor=2
    [ -z "$torch" ] || theirs pipeline 2
    ours pipeline 2 --set parallel.pipeline=2 --set gradient_accumulation_steps=4 --set 'parallel.schedule="gpipe"'
    ours 1f1b 2 --set parallel.pipeline=2 --set gradient_accumulation_steps=4
    ours interleaved 2 --set parallel.pipeline=2 --set gradient_accumulation_steps=4 --set 'parallel.schedule="interleaved"' \
        --set parallel.chunks=2
    ours halves 2 --set parallel.pipeline=2 --set gradient_accumulation_steps=4 --set 'parallel.schedule="zb-h1"'
    ours sequence 2 --set parallel.tensor=2 --set parallel.sequence=true
    ours keys 2 --set parallel.context=2
    ours heads 2 --set parallel.context=2 --set 'parallel.context_by="heads"'
    ours ring 2 --set parallel.context=2 --set 'parallel.context_by="ring"'
    "$build/bench/coll/coll_bench" --ranks 2 --memory ordinary --repeats 3 >>"$tmp/coll"
done
"$build/worker_runtime/dtrun-train" --suggest "$here/parallel/model.json" --set "data.train=$tmp/tokens.bin" --machine ranks=2 >"$tmp/suggested"
say_machine 2
python3 "$here/parallel/table.py" "$tmp"
