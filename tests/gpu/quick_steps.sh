#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# quick_steps.sh STEP [WORD]: one step of tests/gpu/quick, which calls this with a limit of time around it. Exit status: 0 well, 1 not, 3
# there is no GPU, 77 skipped; 128 and more as of the program that was killed. Figures go into results.jsonl as they come.
set -uo pipefail
export LC_ALL=C
PATH=$PATH:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/sbin # where hosts and containers have nvidia-smi, and ldconfig
top=$DT_QUICK_TOP work=$DT_QUICK_WORK out=$DT_QUICK_OUT
build=$top/build train=$top/build/worker_runtime/dtrun-train dtrun=$top/build/launcher/dtrun
mock=$(sed -n 's/^mock=//p' "$top/BUNDLE")
wants=$(sed -n 's/^wants=//p' "$top/BUNDLE") # libraries of CUDA, by their names
[ -z "$mock" ] || export DTRUN_CUDA_PLUGIN=$top/build/tests/gpu/emulator/libdt_cuda_emulated.so DT_EMULATOR_DEVICES=1
if [ -z "$mock" ]; then export DTRUN_CUDA_PLUGIN=$top/build/cuda/libdt_cuda.so; fi
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# -- what a step tells ------------------------------------------------------------------------

says() { # WORD...: the last one stands in the table
    echo "$*" >>"$work/says"
    echo "$*"
}

skip() { # WORD...
    says "$*"
    exit 77
}

fail() { # WORD...
    says "$*"
    exit 1
}

# figure NAME NUMBER: a line of its own, at once; nothing where there is no number.
figure() {
    [[ $2 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] || return 0
    printf '{"step": "%s", "figure": "%s", "value": %s}\n' "$DT_QUICK_STEP" "$1" "$2" >>"$out/results.jsonl"
}

# ended STATUS WORD...: leaves with that status where it is not 0.
ended() {
    local status=$1
    shift
    [ "$status" -eq 0 ] || { says "$*" && exit "$status"; }
}

# number KEY: that member of the last line of JSON on standard input that has one.
number() {
    sed -n 's/.*"'"$1"'": *\(-\{0,1\}[0-9.e+-]*\).*/\1/p' | tail -n 1
}

# -- libraries --------------------------------------------------------------------------------

# Folders that libraries of CUDA may lie in, the best first: PyTorch's wheels, what the loader knows, toolkits.
library_folders() {
    python3 - 2>/dev/null <<'PYTHON'
import glob, os, site, sysconfig
roots = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), site.getusersitepackages()]
for root in dict.fromkeys(roots):
    for pattern in ("nvidia/*/lib", "nvidia/cu*/lib", "torch/lib"):
        print(*sorted(glob.glob(os.path.join(root, pattern))), sep="\n")
PYTHON
    ldconfig -p 2>/dev/null | sed -n 's/.*=> \(.*\)\/[^/]*$/\1/p' | sort -u
    ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib /opt/*/lib /opt/*/lib64 /usr/local/lib /opt/nvidia/*/lib \
        ${CONDA_PREFIX:+"$CONDA_PREFIX/lib"} 2>/dev/null
    tr : '\n' <<<"${LD_LIBRARY_PATH:-}"
    # Environments of Python that python3 is not of.
    timeout 10 find /opt /root /home /srv /usr/lib /usr/local -maxdepth 9 -path '*/nvidia/*/lib' -type d 2>/dev/null
}

# Links what the plugin wants into $work/lib, once for all steps; what the host has not, facts tells.
step_libraries() {
    local name folder folders
    mkdir -p "$work/lib"
    folders=$(library_folders | grep . | awk '!seen[$0]++')
    for name in $wants libcudnn.so.9; do
        while read -r folder; do
            if [ -e "$folder/$name" ]; then
                ln -sf "$folder/$name" "$work/lib/$name"
                # Its parts, which it looks for beside itself.
                [ "$name" != libcudnn.so.9 ] || ln -sf "$folder"/libcudnn_*.so.9 "$work/lib/"
                break
            fi
        done <<<"$folders"
    done
    for name in libstdc++.so.6 libgcc_s.so.1; do
        # The host's own, where it has one: what the driver brings may want a newer one than ours.
        ldconfig -p 2>/dev/null | grep -F "$name" >/dev/null || ln -sf "$top/lib/fallback/$name" "$work/lib/$name"
    done
}

# ours COMMAND...: a program of the bundle, with the libraries that came along.
ours() {
    LD_LIBRARY_PATH=$top/lib:$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

# -- facts ------------------------------------------------------------------------------------

step_facts() {
    local name missing='' gpu capability python
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap,clocks.max.sm,power.limit --format=csv,noheader 2>&1 | head -n 8)
    command -v nvidia-smi >/dev/null || gpu='no nvidia-smi'
    echo "GPU: $gpu"
    echo "kernel $(uname -r), $(getconf GNU_LIBC_VERSION), $(nproc) processors, $(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
    df -h /dev/shm "$work" 2>/dev/null
    ulimit -a | grep -E 'locked|open files|processes'
    ls -la "$work/lib"
    for name in $wants; do
        [ -e "$work/lib/$name" ] || missing+=" $name"
    done
    python=$(timeout 40 python3 -c 'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), "sees a GPU" if torch.cuda.is_available() else "sees no GPU")' 2>/dev/null)
    [ -z "$missing" ] || fail "nowhere on this host:$missing; pack the bundle with the CUDA that it has, or put their folder into LD_LIBRARY_PATH"
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
    if [ -n "$capability" ] && [ "sm_${capability/./}" != "$(sed -n 's/^capability=//p' "$top/BUNDLE" | tr -d a)" ]; then
        says "this GPU is sm_${capability/./} and the bundle is not; scripts/bundle --capability sm_${capability/./} packs one for it"
    fi
    says "${mock:+mock GPU; }$(head -n 1 <<<"$gpu"), ${python:-no PyTorch}"
}

# Whether the plugin loads, sees a GPU, and that multiplies and keeps what it should.
step_plugin() {
    local told rc
    told=$(ours "$train" probe --device cuda --limit $((DT_QUICK_LIMIT > 20 ? DT_QUICK_LIMIT - 10 : 10)) 2>"$work/why")
    rc=$?
    echo "$told" && cat "$work/why"
    if grep -q '"state":"absent"' <<<"$told"; then
        says "$(sed -n 's/.*"why":"\(.*\)"}$/\1/p' <<<"$told" | tail -n 1)"
        grep -q '"installed":true' <<<"$told" && grep -q 'cannot load' <<<"$told" && exit 1
        exit 3
    fi
    ended $rc "$(tail -n 1 "$work/why")"
    figure flops "$(number flops <<<"$told")"
    figure memory "$(number memory <<<"$told")"
    says "$(sed -n 's/.*"name":"\([^"]*\)".*/\1/p' <<<"$told" | tail -n 1): products and memory are well"
}

# -- correctness ------------------------------------------------------------------------------

# A program of the suite gpu, which compares with the CPU.
step_program() {
    local log=$out/running.log rc first
    [ -x "$build/tests/gpu/test_gpu_$1" ] || skip "not in this bundle"
    DT_TRAIN=$train ours "$build/tests/gpu/test_gpu_$1"
    rc=$?
    if grep -qE '^1\.\.0' "$log"; then
        skip "$(sed -n 's/^1\.\.0 # SKIP //ip' "$log")"
    fi
    first=$(grep -m 1 -E '^not ok|sanitizer|error|#' "$log")
    ended $rc "$(grep -cE '^ok' "$log") well${first:+; $first}"
    says "$(grep -cE '^ok' "$log") well, $(grep -ciE '^ok.*# skip' "$log") of them skipped"
}

# golden_run NAME TYPE METRICS WORD...: the steps of that model on the GPU.
golden_run() {
    local name=$1 type=$2 metrics=$3
    shift 3
    rm -f "$metrics"
    ours "$@" "$train" --config "$top/golden/$name.json" --resume none --set train.device=cuda --set "train.metrics=$metrics" \
        --set "bf16.enabled=$([ "$type" = bf16 ] && echo true || echo false)" "${more[@]}"
}

steps_of() { # METRICS: step, loss and norm of its gradients, a line each
    sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([-0-9.e+]*\).*"grad_norm": *\([-0-9.e+]*\).*/\1 \2 \3/p' "$1"
}

# far_apart GOLDEN METRICS: the largest distance of losses, then of norms, in parts of the golden ones; nothing where steps are missing.
far_apart() {
    steps_of "$2" | awk 'NR == FNR { loss[$1] = $2; norm[$1] = $3; all++; next }
        function far(x, y, d) { d = (x - y) / y; return x != x || y == 0 ? 9 : d < 0 ? -d : d }
        $1 in loss { n++; d = far($2, loss[$1]); if (d > a) a = d; d = far($3, norm[$1]); if (d > b) b = d }
        END { if (n == all && n > 0) printf "%.3g %.3g\n", a, b }' "$1" -
}

# DECISIONS: float to 1e-4, bfloat16 within 1 %; the norm of gradients in float to 1e-3. What is told as a CUDA graph has the bits of what
# is told op by op.
step_golden() {
    local name=$1 type most apart words='' bad=''
    [ -e "$top/golden/$name.json" ] || skip "not in this bundle"
    for type in float bf16; do
        more=()
        golden_run "$name" $type "$work/golden.jsonl"
        ended $? "$type: it ended with $?"
        apart=$(far_apart "$top/golden/$name.$type" "$work/golden.jsonl")
        [ -n "$apart" ] || fail "$type: steps are missing"
        figure "$type-loss" "${apart% *}"
        figure "$type-norm" "${apart#* }"
        most=$([ $type = bf16 ] && echo "0.01 9" || echo "1e-4 1e-3")
        awk -v apart="$apart" -v most="$most" 'BEGIN { split(apart, a, " "); split(most, m, " "); exit !(a[1] <= m[1] && a[2] <= m[2]) }' ||
            bad="; too far"
        words+="$type: loss ${apart% *}, norm ${apart#* }; "
    done
    steps_of "$work/golden.jsonl" >"$work/as-graphs"
    more=(--set train.cuda_graphs=false)
    golden_run "$name" bf16 "$work/golden.jsonl"
    ended $? "without CUDA graphs it ended with $?"
    if steps_of "$work/golden.jsonl" | cmp -s - "$work/as-graphs"; then
        words+="graphs: same bits"
    else
        words+="graphs: OTHER BITS" bad+="; graphs differ"
    fi
    compare_tensors "$name"
    says "$words$tensors"
    [ -z "$bad" ] || fail "$words$tensors$bad"
}

# compare_tensors NAME: sets $tensors to what a run in float leaves, beside what it left on a CPU. Told, and judged with the norm.
compare_tensors() {
    tensors=''
    [ -e "$top/golden/$1.weights" ] || return 0
    command -v python3 >/dev/null || { tensors='; no python3 compares tensors' && return 0; }
    rm -rf "$work/weights"
    more=(--set "train.save_dir=$work/weights" --set train.save_every=5)
    golden_run "$1" float "$work/golden.jsonl"
    ended $? "with a checkpoint it ended with $?"
    tensors=$(python3 "$top/tests/gpu/quick_golden.py" compare "$top/golden/$1.weights" "$work/weights") || bad+='; tensors differ'
    tensors="; $tensors"
}

# -- speed ------------------------------------------------------------------------------------

# watched COMMAND...: sets $peak to the MiB of the GPU that it took at most, as nvidia-smi shows them; empty without nvidia-smi.
watched() {
    local watch='' before rc
    peak='' before=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 2>/dev/null)
    if [[ $before =~ ^[0-9]+$ ]]; then # "[N/A]" where a GPU is cut into parts
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 --loop-ms=100 >"$work/memory" 2>/dev/null &
        watch=$!
    fi
    "$@"
    rc=$?
    if [ -n "$watch" ]; then
        kill $watch 2>/dev/null
        peak=$(sort -n "$work/memory" | tail -n 1)
        peak=$((peak - before))
    fi
    return $rc
}

# median KEY METRICS: of that member, without the first steps.
median() {
    sed -n 's/.*"'"$1"'": *\([-0-9.e+]*\).*/\1/p' "$2" | tail -n +4 | sort -g | awk '{ x[NR] = $1 } END { if (NR) print x[int((NR + 1) / 2)] }'
}

# A few steps of a model of the benchmark in bfloat16, as graphs and op by op.
step_train() {
    local name=$1 how words=''
    [ -e "$top/golden/train-$name.json" ] || skip "not in this bundle"
    for how in true false; do
        rm -f "$work/metrics"
        watched ours "$train" --config "$top/golden/train-$name.json" --set "train.metrics=$work/metrics" --set train.cuda_graphs=$how
        ended $? "${words}it ended with $?$([ $how = true ] || echo ' without CUDA graphs')"
        figure "tokens_per_s$([ $how = true ] || echo -op-by-op)" "$(median tokens_per_s "$work/metrics")"
        figure "ms$([ $how = true ] || echo -op-by-op)" "$(median ms "$work/metrics")"
        [ $how = false ] || { figure utilisation "$(median utilisation "$work/metrics")" && figure peak_mib "${peak:-}"; }
        words+="$([ $how = true ] || echo ', op by op ')$(median tokens_per_s "$work/metrics" | cut -d . -f 1) tokens/s"
        [ $how = false ] || words+=", MFU $(median utilisation "$work/metrics"), peak ${peak:--} MiB"
    done
    says "$words"
}

# A group of bench/gpu_kernels.c, whose lines come to kernels.jsonl.
step_kernels() {
    local rc
    ours "$build/bench/gpu_kernels" --only "$1" --rounds 3 ${mock:+--toy} >"$work/kernels"
    rc=$?
    cat "$work/kernels" && cat "$work/kernels" >>"$out/kernels.jsonl"
    ended $rc "$(wc -l <"$work/kernels") lines, then it ended with $rc"
    says "$(sed -n 's/.*"op": "\([a-z_]*\)".*"ms": \([0-9.]*\), "bytes": \([0-9]*\), "operations": \([0-9]*\).*/\1 \2 \3 \4/p' "$work/kernels" |
        awk '$2 > 0 { printf "%s%s %.0f %s", n++ ? ", " : "", $1, ($3 ? $3 * 1e-6 : $4 * 1e-9) / $2, $3 ? "GB/s" : "TFLOP/s" }')"
}

# cudnn_taken FILE: skips the step where a line of FILE says that cuDNN's attention is not taken, and fails it where that was wrong.
cudnn_taken() {
    ! grep -q 'of its norm apart' "$1" || fail "$(grep -m 1 -o "cuDNN's attention .* apart" "$1") from ours: see log.txt"
    ! grep -q "dtrun's own kernels" "$1" || skip "$(grep -m 1 -o "dtrun's own kernels.*" "$1")"
}

# cuDNN's attention at the shapes of ours. Its lines have a "backend".
step_cudnn_attention() {
    local rc
    ours "$build/bench/gpu_kernels" --only attention --attention cudnn --rounds 3 ${mock:+--toy} >"$work/cudnn" 2>"$work/why"
    rc=$?
    cat "$work/cudnn" "$work/why"
    ended $rc "$(wc -l <"$work/cudnn") lines, then it ended with $rc"
    cudnn_taken "$work/why"
    sed 's/}$/, "backend": "cudnn by dtrun"}/' "$work/cudnn" >>"$out/kernels.jsonl"
    says "$(sed -n 's/.*"op": "\([a-z_]*\)".*"ms": \([0-9.]*\), "bytes": [0-9]*, "operations": \([0-9]*\).*/\1 \2 \3/p' "$work/cudnn" |
        awk '$2 > 0 { printf "%s%s %.0f TFLOP/s", n++ ? ", " : "", $1, $3 * 1e-9 / $2 }')"
}

# The same model as train-..., with cuDNN's attention, which here adds up in any order.
step_cudnn_train() {
    [ -e "$top/golden/train-$1.json" ] || skip "not in this bundle"
    rm -f "$work/metrics"
    watched ours "$train" --config "$top/golden/train-$1.json" --set "train.metrics=$work/metrics" --set train.attention=cudnn \
        --set train.deterministic=false 2>"$work/why"
    ended $? "it ended with $?"
    cat "$work/why"
    cudnn_taken "$work/why"
    figure tokens_per_s "$(median tokens_per_s "$work/metrics")"
    figure ms "$(median ms "$work/metrics")"
    figure peak_mib "${peak:-}"
    says "$(median tokens_per_s "$work/metrics" | cut -d . -f 1) tokens/s, MFU $(median utilisation "$work/metrics"), peak ${peak:--} MiB"
}

need_torch() {
    [ -e "$work/torch" ] || timeout 60 python3 -c 'import torch; print("yes" if torch.cuda.is_available() else "no")' >"$work/torch" 2>/dev/null
    [ -s "$work/torch" ] || skip "no PyTorch here"
    grep -q yes "$work/torch" || skip "PyTorch sees no GPU here"
}

# PyTorch's attention, by each of its backends, at the shapes that ours was timed at.
step_torch_attention() {
    need_torch
    grep -h '"op": "attention_' "$out/kernels.jsonl" 2>/dev/null | grep -v '"backend"' >"$work/shapes" || skip "kernels-attention has no lines"
    python3 "$top/bench/gpu/attention.py" --rounds 3 <"$work/shapes" | tee -a "$out/kernels.jsonl" >"$work/theirs"
    ended $? "$(wc -l <"$work/theirs") lines, then it ended"
    says "$(sed -n 's/.*"op": "attention_\([a-z]*\)".*"backend": "\([a-z_]*\)".*"ratio": \([0-9.]*\).*/\1 \2 \3/p' "$work/theirs" |
        awk '{ k = $1 " " $2; s[k] += log($3); n[k]++ } END { for (k in n) printf "%s%s %.2fx ours", i++ ? ", " : "", k, exp(s[k] / n[k]) }')"
}

# Plain PyTorch on the same model, eager and compiled.
step_torch_train() {
    local how words='' options
    need_torch
    [ -e "$top/golden/train-$1.json" ] || skip "not in this bundle"
    for how in eager compile; do
        options=(--steps 15)
        [ $how = eager ] || options+=(--compile)
        python3 "$top/bench/gpu/measure.py" - python3 "$top/bench/gpu/torch_train.py" "$top/golden/train-$1.json" "${options[@]}" \
            >"$work/theirs"
        ended $? "$words$how ended with $?"
        figure "ms-$how" "$(number ms <"$work/theirs")"
        figure "peak_mib-$how" "$(number peak_mib <"$work/theirs")"
        words+="$how $(number ms <"$work/theirs") ms a step, "
    done
    says "$words""ours $(sed -n 's/{"step": "train-'"$1"'", "figure": "ms", "value": \(.*\)}/\1/p' "$out/results.jsonl" | tail -n 1) ms"
}

# -- NCCL, and what dies ----------------------------------------------------------------------

step_nccl_check() {
    ours "$train" --check-nccl >"$work/nccl" 2>&1
    local rc=$?
    cat "$work/nccl"
    ended $rc "$(grep -m 1 '^ ! ' "$work/nccl")"
    says "$(grep -c . "$work/nccl") lines, none of them a problem"
}

free_port() {
    local port
    for port in $(shuf -i 20000-32000 -n 20); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port" && return; }
    done
}

# node NUMBER PORT NAME TYPE WORD...: one of two agents that share the GPU, which NCCL allows where it takes them for two hosts.
node() {
    local number=$1 port=$2 name=$3 type=$4
    more=("${@:5}")
    NCCL_HOSTID=quick-$number NCCL_SOCKET_IFNAME=lo \
        golden_run "$name" "$type" "$work/node-$number.jsonl" "$dtrun" --nnodes 2 --node-rank "$number" --master-addr 127.0.0.1 \
        --master-port "$port" --nproc-per-node 1 --no-python
}

# two_nodes WHAT OPTION...: how far the losses of two ranks with these options are from the CPU's, in $apart; too far, or an end that
# is none, ends the step.
two_nodes() {
    local what=$1 port other rc
    shift
    port=$(free_port)
    node 1 "$port" llama float "$@" >"$work/node-1.log" 2>&1 &
    other=$!
    node 0 "$port" llama float "$@"
    rc=$?
    wait $other || rc=$((rc ? rc : $?))
    cat "$work/node-1.log"
    ended $rc "${words}$what ended with $rc"
    apart=$(far_apart "$top/golden/llama.float" "$work/node-0.jsonl")
    [ -n "$apart" ] || fail "${words}$what: steps are missing"
    apart=${apart% *}
    figure "${what// /-}-loss" "$apart"
    words+="$what $apart, "
    awk -v a="$apart" 'BEGIN { exit !(a <= 1e-4) }' || fail "${words}which is too far from the CPU's losses"
}

# Two ranks at each stage of ZeRO have the losses of the CPU.
step_nccl_one_gpu() {
    local stages='0 1 2 3' stage words='' apart
    [ -z "$mock" ] || stages=3
    for stage in $stages; do
        two_nodes "stage $stage" --set "zero_optimization.stage=$stage"
    done
    says "two ranks on this GPU by NCCL, losses apart: ${words%, }"
}

# So have two that share the layers, and send each other what is between them.
step_nccl_pipeline() {
    local schedule words='' apart
    for schedule in 1f1b gpipe; do
        two_nodes "$schedule" --set parallel.pipeline=2 --set gradient_accumulation_steps=2 --set "parallel.schedule=\"$schedule\""
    done
    says "two stages on this GPU by NCCL, losses apart: ${words%, }"
}

# small_sums NUMBER PORT BLOCKS: what many small all-reduces cost the host of one of two agents that share the GPU.
small_sums() {
    NCCL_HOSTID=quick-$1 NCCL_SOCKET_IFNAME=lo NCCL_COMM_BLOCKING=$3 ours "$dtrun" --nnodes 2 --node-rank "$1" --master-addr 127.0.0.1 \
        --master-port "$2" --nproc-per-node 1 --no-python "$build/bench/gpu_allreduce" --calls "$([ -n "$mock" ] && echo 20 || echo 1000)"
}

# The same by communicators that block and by those that do not.
step_nccl_blocking() {
    local blocks port other rc us words=''
    for blocks in 0 1; do
        port=$(free_port)
        small_sums 1 "$port" $blocks >"$work/sums-1" 2>&1 &
        other=$!
        small_sums 0 "$port" $blocks >"$work/sums-0"
        rc=$?
        wait $other || rc=$((rc ? rc : $?))
        cat "$work"/sums-?
        ended $rc "${words}NCCL_COMM_BLOCKING=$blocks ended with $rc"
        us=$(cat "$work"/sums-? | number host_us)
        [ -n "$us" ] || fail "${words}NCCL_COMM_BLOCKING=$blocks told no figure"
        figure "blocking-$blocks-us" "$us"
        words+="$us us with NCCL_COMM_BLOCKING=$blocks, "
    done
    says "the host's time of a small all-reduce: ${words%, }"
}

# worker_of PID: the pid of a dtrun-train below it.
worker_of() {
    local pid above
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dtrun-train ] || continue
        above=$pid
        while [ "${above:-0}" -gt 1 ] && [ "$above" != "$1" ]; do
            above=$(sed -n 's/^PPid:\t//p' "/proc/$above/status" 2>/dev/null)
        done
        [ "$above" != "$1" ] || { echo "$pid" && return; }
    done
}

# A rank is killed with -9 while it trains: the job comes back, with each step's bits.
step_comeback() {
    local job worker line steps=${mock:+12}
    steps=${steps:-600}
    more=(--set "train.steps=$steps" --set "scheduler.params.total_num_steps=$steps")
    golden_run llama float "$work/whole.jsonl"
    ended $? "the run that nobody disturbs ended with $?"
    more+=(--set train.vault_every=1)
    mkfifo "$work/lines"
    golden_run llama float "$work/killed.jsonl" "$dtrun" --nproc-per-node 1 --max-restarts 1 --no-python >"$work/lines" 2>&1 &
    job=$!
    exec 3<"$work/lines"
    while read -r line <&3; do
        echo "$line"
        [[ ! $line =~ ^step\ +3/ ]] || break
    done
    worker=$(worker_of $job)
    [ -n "$worker" ] || fail "it ended before a rank could be killed"
    kill -KILL "$worker"
    cat <&3 | tee "$work/after"
    wait $job
    ended $? "with a rank killed it ended with $?"
    grep -q '^back at step' "$work/after" || fail "it ended well and never said that it is back"
    if ! cmp -s <(steps_of "$work/whole.jsonl") <(steps_of "$work/killed.jsonl" | sort -n -k 1,1 -u); then
        fail "it came back, with other losses than the run that nobody disturbs"
    fi
    says "$(grep -m 1 '^back at step' "$work/after"); all $steps losses have the same bits"
}

# What --estimate says, beside what training took.
step_memory() {
    local name told took words=''
    for name in gpt2-1024 llama-1024; do
        [ -e "$top/golden/train-$name.json" ] || continue
        told=$(ours "$train" --estimate "$top/golden/train-$name.json" 2>&1)
        echo "$told"
        told=$(sed -n 's/^stage 0 takes \([0-9.]* [MG]iB\).*/\1/p' <<<"$told" | awk '{ print $1 * ($2 == "GiB" ? 1024 : 1) }')
        [ -n "$told" ] || fail "--estimate of $name does not say what stage 0 takes"
        took=$(sed -n 's/{"step": "train-'"$name"'", "figure": "peak_mib", "value": \(.*\)}/\1/p' "$out/results.jsonl" | tail -n 1)
        figure "estimate_mib-$name" "$told"
        words+="$name: ${told%.*} MiB by --estimate, ${took:-not measured} by nvidia-smi; "
    done
    [ -n "$words" ] || skip "no model to estimate in this bundle"
    says "${words%; }"
}

# -- tools of NVIDIA's, where they are ----------------------------------------------------------

tool_called() {
    local path
    for path in "$(command -v "$1")" /usr/local/cuda/bin/"$1" /opt/nvidia/nsight-compute/*/"$1"; do
        [ ! -x "$path" ] || { echo "$path" && return; }
    done
}

# The time of each kernel in a few steps.
step_profile() {
    local tool
    [ -z "$mock" ] || skip "nothing to profile on a mock GPU"
    tool=$(tool_called ncu)
    [ -n "$tool" ] || skip "no ncu here"
    ours "$tool" --clock-control none --metrics gpu__time_duration.sum --csv --target-processes all "$train" \
        --config "$top/golden/train-gpt2-1024.json" --set train.steps=2 --set train.cuda_graphs=false --set "train.metrics=$work/metrics" \
        >"$work/profile" 2>&1
    ended $? "$(tail -n 1 "$work/profile")"
    # Kernel and nanoseconds are the fields behind the names of their columns.
    awk -F '","' '/"Kernel Name"/ { for (i = 1; i <= NF; i++) { f = $i; gsub(/"/, "", f); if (f == "Kernel Name") k = i; if (f == "Metric Value") v = i } next }
        k { t = $v; gsub(/[",]/, "", t); n = $k; sub(/[(<].*/, "", n); sum[n] += t; all += t }
        END { for (n in sum) printf "%5.1f %% %s\n", 100 * sum[n] / all, n }' "$work/profile" | sort -rn >"$work/parts"
    head -n 40 "$work/parts"
    says "$(head -n 4 "$work/parts" | tr -s ' ' | tr '\n' ',')"
}

# memcheck and racecheck over a test of kernels.
step_sanitize() {
    local tool checker rc
    [ -z "$mock" ] || skip "the mock GPU looks for itself"
    checker=$(tool_called compute-sanitizer)
    [ -n "$checker" ] || skip "no compute-sanitizer here"
    for tool in memcheck racecheck; do
        DT_TRAIN=$train ours "$checker" --tool $tool --error-exitcode 9 "$build/tests/gpu/test_gpu_$1"
        rc=$?
        ended $rc "$tool found something, or ended with $rc"
        says "$tool found nothing"
    done
    says "memcheck and racecheck found nothing"
}

cd "$top/golden" || exit 1 # where files of tokens are, which configurations name
step=$1
shift
"step_$step" "$@"
