#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training on GPUs beside PyTorch's, in one run on the same GPU. Three tables:
# - Each op beside the bandwidth of a copy and beside PyTorch's own: gpu_kernels and gpu/kernels.py.
# - GPT-2 124M (examples/gpt2-124m.json) and a Llama of 1.1 B (examples/llama-1b.json) in bfloat16 on one GPU, at 1024 and 4096
#   positions, and the Llama with three times the tokens a step, 24576: tokens/s, MFU, peak memory of dtrun-train and of plain
#   PyTorch (gpu/torch_train.py), eager and compiled. Rounds alternate; medians of steps, least of rounds. MFU: 6 operations for
#   each weight of a matrix product and token, and 6 x layers x width x positions for attention, the half that is not masked; over
#   the time, over --peak. The numbers that go into this stand below the table.
# - NCCL's all-reduce through libdtrun on all GPUs of this host, where there are two or more.
# PyTorch is that of python3, where it sees a GPU; else ours is measured alone. Each measurement is a process of its own and is told
# as it ends: one that fails costs no other, and whoever ends this early has, with --out, what was measured until then.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: gpu.sh [--build DIR] [--only PARTS] [--models NAMES] [--out DIR] [--rounds N] [--steps N] [--peak TFLOPS] [--no-torch] [--toy]
  --only PARTS   of kernels, train, reduce: some of the three tables, as in kernels,train
  --models NAMES of gpt2-1024, gpt2-4096, llama-1024, llama-4096, llama-24x1024: what to train
  --out DIR      keep each measurement there, a line of JSON, as it comes; lines that are there already count
  --build DIR    where the project is built (build), best as a release
  --rounds N     rounds of each measurement (3)
  --steps N      steps of each run (20)
  --peak TFLOPS  what the GPU could do: dense bfloat16 (989, an H100 or H200 SXM)
  --no-torch     ours alone
  --toy          tiny sizes, on the tests' mock GPU unless DTRUN_CUDA_PLUGIN names a plugin: shows that this runs, and measures nothing"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build rounds=3 steps=20 peak=989 torch=yes no_torch='' toy='' only='' models='' out='' failed=0
. "$top/bench/lib.sh"
read_options "--build --only --models --out --rounds --steps --peak" "--no-torch --toy" "$@"
[ -z "$no_torch" ] || torch=
check_number --rounds 2
check_number --steps 4
check_number --peak 6
find_build launcher/dtrun worker_runtime/dtrun-train bench/gpu_kernels bench/gpu_allreduce

sees_gpu() {
    python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
mock=$build/tests/gpu/emulator/libdt_cuda_emulated.so
if [ -z "${DTRUN_CUDA_PLUGIN:-}" ]; then
    if [ -n "$toy" ] && [ -e "$mock" ]; then
        gpus=2
        export DTRUN_CUDA_PLUGIN=$mock DT_EMULATOR_DEVICES=$gpus
    else
        export DTRUN_CUDA_PLUGIN=$build/cuda/libdt_cuda.so
    fi
fi
[ -e "$DTRUN_CUDA_PLUGIN" ] || refuse "no $DTRUN_CUDA_PLUGIN: a build with CUDA makes it."
[ "$gpus" -gt 0 ] || refuse "no GPU here; --toy shows on the tests' mock GPU that this runs."
if [ -n "$torch" ] && [ -z "$toy" ] && ! sees_gpu; then
    echo "gpu.sh: python3 has no PyTorch that sees a GPU: ours alone" >&2
    torch=
elif [ -n "$torch" ] && [ -n "$toy" ] && ! python3 -c 'import torch' 2>/dev/null; then
    torch=
fi

# Name, example, positions, samples of a step.
known="gpt2-1024 gpt2-124m 1024 16
gpt2-4096 gpt2-124m 4096 4
llama-1024 llama-1b 1024 8
llama-4096 llama-1b 4096 2
llama-24x1024 llama-1b 1024 24"
[ -z "$toy" ] || known="tiny-16 tiny 16 2
tiny-32 tiny 32 1"

# chosen OPTION LIST KNOWN...: that LIST, with commas, has nothing but KNOWN in it; prints its words, or all there are.
chosen() {
    local option=$1 words=${2//,/ } word
    shift 2
    for word in $words; do
        [[ " $* " == *" $word "* ]] || refuse "$option: \"$word\" is none of $*."
    done
    echo "${words:-$*}"
}
only=$(chosen --only "$only" kernels train reduce) || exit
# shellcheck disable=SC2046 # a list of words
models=$(chosen --models "$models" $(cut -d ' ' -f 1 <<<"$known")) || exit

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -n "$out" ]; then
    mkdir -p "$out" 2>/dev/null || refuse "--out $out: no folder can be made there."
    out=$(cd "$out" && pwd)
else
    out=$tmp
fi
# run COMMAND...: what it prints goes on, and its errors are shown when it fails.
run() {
    "$@" 2>"$tmp/log" || {
        echo "gpu.sh: $* ended with $?" >&2
        tail -n 20 "$tmp/log" >&2
        failed=1
        return 1
    }
}

# kernel GROUP: a process for ours, and one for theirs at the shapes that ours told.
kernel() {
    run "$build/bench/gpu_kernels" --only "$1" --rounds "$rounds" ${toy:+--toy} >"$tmp/ours" || true
    if [ -n "$torch" ] && run python3 "$here/gpu/kernels.py" --rounds "$rounds" ${toy:+--toy} <"$tmp/ours" >"$tmp/theirs"; then
        cat "$tmp/theirs"
    else
        cat "$tmp/ours"
    fi >>"$out/kernels.jsonl"
    echo "measured: $1" >&2
}

kernels() {
    local group
    for group in copy embedding norm head_norm rope activation linear attention loss optimizer; do
        kernel $group
    done
    python3 "$here/gpu/table.py" kernels "$out/kernels.jsonl" "$peak"
}

tokens() { # FILE COUNT VOCABULARY
    python3 - "$@" <<'END'
import array, random, sys
random.seed(1)
path, count, below = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "wb") as f:
    array.array("H", (random.randrange(below) for _ in range(count))).tofile(f)
END
}

# measured NAME HOW COMMAND...: a line more of that.
measured() {
    local to=$out/$1.$2 what="$1, $2"
    shift 2
    run "$@" >"$tmp/line" || return 0
    cat "$tmp/line" >>"$to"
    echo "measured: $what: $(<"$tmp/line")" >&2
}

# train NAME EXAMPLE POSITIONS BATCH: a round of ours, with CUDA graphs and without, and of theirs.
train() {
    local how config=$out/$1.json
    for how in op-by-op dtrun; do
        rm -f "$tmp/metrics"
        python3 "$here/gpu/config.py" "$top/examples/$2.json" "$3" "$4" "$((steps + 3))" "$tmp/tokens-$2" "$tmp/metrics" \
            "$how" >"$config"
        measured "$1" "$how" python3 "$here/gpu/measure.py" "$tmp/metrics" "$build/worker_runtime/dtrun-train" --config "$config"
    done
    [ -n "$torch" ] || return 0
    measured "$1" eager python3 "$here/gpu/measure.py" - python3 "$here/gpu/torch_train.py" "$config" --steps "$steps" ${toy:+--toy}
    measured "$1" compiled python3 "$here/gpu/measure.py" - python3 "$here/gpu/torch_train.py" "$config" --steps "$steps" \
        --compile ${toy:+--toy}
}

trainings() {
    local name example positions batch
    if [ -n "$toy" ]; then
        tokens "$tmp/tokens-tiny" 5000 320
    else
        tokens "$tmp/tokens-gpt2-124m" 4000000 50257
        tokens "$tmp/tokens-llama-1b" 4000000 32000
    fi
    for _ in $(seq "$rounds"); do
        while read -r name example positions batch; do
            [[ " $models " != *" $name "* ]] || train "$name" "$example" "$positions" "$batch" </dev/null
        done <<<"$known"
    done
    echo "$models" | python3 "$here/gpu/table.py" trainings "$out" "$peak"
}

all_reduce() {
    run "$build/launcher/dtrun" --standalone --nproc-per-node "$gpus" "$build/bench/gpu_allreduce" ${toy:+--toy} \
        >"$out/reduces.jsonl" || return 0
    python3 "$here/gpu/table.py" reduces "$out/reduces.jsonl" "$gpus"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader 2>/dev/null || true
[ -z "$toy" ] || echo "Toy sizes: these are no measurements."
for part in $only; do
    case $part in
    kernels) kernels ;;
    train) trainings ;;
    reduce) if [ "$gpus" -gt 1 ]; then all_reduce; else echo "One GPU: no all-reduce to measure."; fi ;;
    esac
    echo
done
exit $failed
