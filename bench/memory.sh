#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What dtrun-train --estimate says of runs on this machine, beside what they take: a Llama with 32.5 million parameters, all of it
# trained or adapters, in one rank and in two. With --qwen the same of adapters of rank 8 beside a model of the shape of Qwen2.5-0.5B
# (1 GB in a temporary folder). What a process takes that has as good as no model is taken off.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
. "$top/bench/lib.sh"
build=$top/build qwen=
# shellcheck disable=SC2034 # read_options prints it
usage="Usage: ${0##*/} [--build DIR] [--qwen]
  --build DIR   where the project is built (build), best as a release
  --qwen        the large model alone"
read_options "--build" "--qwen" "$@"
find_build worker_runtime/dtrun-train launcher/dtrun

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make_tokens 16384 >"$tmp/tokens.bin"
make_tokens 64 >"$tmp/few.bin"

# measured WORLD EMPTY NAME [KEY=VALUE...]: a row
measured() {
    local world=$1 empty=$2 name=$3 word sets=()
    shift 3
    for word; do sets+=(--set "$word"); done
    python3 "$here/memory/measure.py" "$build/launcher/dtrun" "$build/worker_runtime/dtrun-train" "$world" "$empty" "$name" \
        "$here/memory/model.json" --set "data.train=$tmp/tokens.bin" "${sets[@]}" 2>"$tmp/log" || {
        tail -n 20 "$tmp/log" >&2
        exit 1
    }
}

say_machine "$(nproc)"
little='model.config={"model_type":"gpt2","n_layer":1,"n_embd":32,"n_head":2,"n_positions":16,"vocab_size":64}'
empty=$(measured 1 0 empty "$little" "data.train=$tmp/few.bin" train_micro_batch_size_per_gpu=1 train.steps=1000)
echo "empty    $empty MiB in a process with as good as no model"
echo
echo "| what | ranks | --estimate MiB | measured | off by | all of it | largest rank |"
echo "|---|---|---|---|---|---|---|"
if [ "$qwen" ]; then
    python3 "$here/memory/qwen.py" "$tmp/qwen"
    for world in 1 2; do
        for base in full nf4; do
            measured $world "$empty" "Qwen2.5-0.5B's shape, base \"$base\"" "model.weights=$tmp/qwen" model.config=null \
                "lora={\"r\":8,\"base\":\"$base\"}" 'bf16={"enabled":true}' data.sequence_length=128 train_micro_batch_size_per_gpu=1
        done
    done
    exit 0
fi
measured 1 "$empty" "all weights, with checkpoints" "train.save_dir=$tmp/model"
measured 1 "$empty" "all weights, gone on with" "train.save_dir=$tmp/model" train.steps=6
measured 1 "$empty" "all weights"
measured 1 "$empty" "all weights, activation_checkpointing" model.activation_checkpointing=true
measured 2 "$empty" "all weights, stage 0"
measured 2 "$empty" "all weights, stage 2" zero_optimization.stage=2
measured 2 "$empty" "all weights, stage 3" zero_optimization.stage=3
for world in 1 2; do
    measured $world "$empty" "LoRA" "model.weights=$tmp/model" 'lora={"r":16}'
    measured $world "$empty" "LoRA, base \"nf4\"" "model.weights=$tmp/model" 'lora={"r":16,"base":"nf4"}'
done
measured 1 "$empty" "LoRA, activation_checkpointing" "model.weights=$tmp/model" 'lora={"r":16}' model.activation_checkpointing=true
measured 1 "$empty" "DoRA with dropout" "model.weights=$tmp/model" 'lora={"r":16,"use_dora":true,"dropout":0.1}'
