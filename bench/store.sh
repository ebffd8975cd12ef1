#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures dtrun-rendezvous, PyTorch's own store and redis side by side, in one run on one machine,
# and prints the figures and their ratios. All servers run at once; the loads go round them in turn
# (A B C, A B C), and the median of the rounds counts, so that a noisy neighbour hits all.
# Every load is bounded in time; a server that stops answering is reported as frozen and replaced.
# Exit status: 0 when measured, 1 when nothing could be, 2 for a bad command line.
set -u
export LC_ALL=C

usage="Usage: store.sh [--build DIR] [--rounds N] [--seconds S] [--quick]
  --build DIR   where the project is built (build)
  --rounds N    rounds of each load (3)
  --seconds S   seconds of each load (2)
  --quick       one short round of everything, for a look: under a minute"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=build
quick=
rounds=3
seconds=2
warmup=0.5
stall=3
keys=1000000
waiters=10000

. "$top/bench/lib.sh"
read_options "--build --rounds --seconds" "--quick" "$@"
[ -z "$quick" ] || rounds=1 seconds=0.3 warmup=0.1 stall=1 keys=100000 waiters=1000
check_number --rounds 2
[[ $seconds =~ ^[0-9]{1,3}(\.[0-9]+)?$ && ! $seconds =~ ^0+(\.0+)?$ ]] ||
    refuse "--seconds: \"$seconds\" is not a time up to 999 seconds."
find_build bench/store_bench bench/store_abuse bench/store_floor
bench=$build/bench/store_bench
abuse=$build/bench/store_abuse
ulimit -n "$(ulimit -Hn)"

# -- servers --------------------------------------------------------------------------------------

declare -A pid port wire version absent
tmp=$(mktemp -d)

stop() { # SERVER or any name in pid[]
    local p=${pid[$1]:-}
    [ -n "$p" ] || return 0
    unset "pid[$1]"
    kill "$p" 2>/dev/null
    for _ in $(seq 20); do
        kill -0 "$p" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$p" 2>/dev/null
    wait "$p" 2>/dev/null
}

# shellcheck disable=SC2317 # called by trap
stop_all() {
    for name in "${!pid[@]}"; do stop "$name"; done
    rm -rf "$tmp"
}
trap stop_all EXIT
trap 'exit 1' INT TERM HUP PIPE

await_port() { # SERVER: from the line "listening on HOST:PORT" in its log
    for _ in $(seq 300); do
        port[$1]=$(sed -n 's/.*listening on .*:\([0-9][0-9]*\).*/\1/p' "$tmp/$1.log" | tail -n 1)
        [ -z "${port[$1]}" ] || return 0
        kill -0 "${pid[$1]}" 2>/dev/null || break
        sleep 0.1
    done
    stop "$1"
    return 1
}

start_dtrun() {
    wire[dtrun]=c10d
    "$build/rendezvous/dtrun-rendezvous" --listen 127.0.0.1:0 >"$tmp/dtrun.log" 2>&1 &
    pid[dtrun]=$!
    await_port dtrun
}

start_floor() {
    wire[floor]=c10d
    "$build/bench/store_floor" >"$tmp/floor.log" 2>&1 &
    pid[floor]=$!
    await_port floor
}

start_torch() {
    if [ -n "$torch_root" ]; then
        chroot "$torch_root" python3 - <"$here/torch_server.py" >"$tmp/torch.log" 2>&1 &
    else
        "$torch_python" "$here/torch_server.py" >"$tmp/torch.log" 2>&1 &
    fi
    pid[torch]=$!
    await_port torch || return 1
    version[torch]=$(grep -m 1 '^torch ' "$tmp/torch.log")
    case ${version[torch]} in
    "torch 1."* | "torch 2.0"*) wire[torch]=c10d-legacy ;;
    *) wire[torch]=c10d ;;
    esac
}

start_redis() {
    wire[redis]=redis
    for _ in 1 2 3 4 5; do
        port[redis]=$((20000 + RANDOM % 10000))
        redis-server --port "${port[redis]}" --bind 127.0.0.1 --save '' --appendonly no \
            --maxclients 15000 --dir "$tmp" >"$tmp/redis.log" 2>&1 &
        pid[redis]=$!
        for _ in $(seq 100); do
            ! grep -q 'Ready to accept connections' "$tmp/redis.log" || return 0
            kill -0 "${pid[redis]}" 2>/dev/null || break
            sleep 0.1
        done
        stop redis
    done
    return 1
}

find_torch() { # a Debian 13 root beside the build, else the system's
    torch_root='' torch_python=''
    local root
    for root in "$build/roots/trixie" "$here/../build/roots/trixie"; do
        if [ "$(id -u)" = 0 ] && [ -d "$root" ] && chroot "$root" python3 -c 'import torch' >/dev/null 2>&1; then
            torch_root=$root
            return 0
        fi
    done
    for torch_python in python3 /usr/bin/python3; do
        ! "$torch_python" -c 'import torch' >/dev/null 2>&1 || return 0
    done
    return 1
}

rss() { # SERVER: KiB
    awk '/^VmRSS/ { print $2 }' "/proc/${pid[$1]}/status"
}

if [ ! -x "$build/rendezvous/dtrun-rendezvous" ]; then
    absent[dtrun]="no dtrun-rendezvous in $build/rendezvous"
elif ! start_dtrun; then
    absent[dtrun]="dtrun-rendezvous did not start: $(tail -n 1 "$tmp/dtrun.log")"
else
    version[dtrun]=$("$build/rendezvous/dtrun-rendezvous" --version 2>/dev/null | head -n 1)
fi
if ! find_torch; then
    absent[torch]="no python3 with torch"
elif ! start_torch; then
    absent[torch]="torch's server did not start: $(tail -n 1 "$tmp/torch.log")"
fi
if ! command -v redis-server >/dev/null; then
    absent[redis]="no redis-server"
elif ! start_redis; then
    absent[redis]="redis-server did not start: $(tail -n 1 "$tmp/redis.log")"
else
    version[redis]=$(redis-server --version | sed 's/ sha=.*//')
fi

servers=()
for name in dtrun torch redis; do
    [ -n "${absent[$name]:-}" ] || servers+=("$name")
done

say_machine "$(nproc)"
for name in dtrun torch redis; do
    echo "$(printf '%-8s' $name) ${absent[$name]:+absent: ${absent[$name]}}${version[$name]:-}"
done
start_floor || exit 1
echo "floor    a server without a store: what kernel and client allow at most on this machine"
echo "loads    $rounds rounds of $seconds s, median; latencies in microseconds"
[ ${#servers[@]} -gt 0 ] || {
    echo "store.sh: no server to measure." >&2
    exit 1
}

# -- measuring ------------------------------------------------------------------------------------

# One run: "OPS P50 P99 P99.9 STATE", where STATE is ok, frozen or failed.
measure() { # SERVER ARGS...
    local name=$1 line status
    shift
    line=$(timeout 180 "$bench" --server "127.0.0.1:${port[$name]}" --protocol "${wire[$name]}" \
        --format tsv --seconds "$seconds" --warmup "$warmup" --stall "$stall" "$@" 2>"$tmp/bench.err")
    status=$?
    if [ -n "$line" ]; then
        echo "$line" | awk -F '\t' '{ print $7, $8, $9, $10, ($12 == 1 ? "frozen" : "ok") }'
    elif [ $status = 124 ] || grep -q 'gave no sign' "$tmp/bench.err"; then
        echo "0 0 0 0 frozen"
    else
        sed 's/^/# /' "$tmp/bench.err" >&2
        echo "0 0 0 0 failed"
    fi
}

# Medians, column by column, of the lines of a file; a single frozen or failed run decides.
median() { # FILE
    [ -s "$1" ] || { echo "- - - - absent" && return; }
    local bad column out=''
    bad=$(awk '$5 != "ok" { print $5; exit }' "$1")
    [ -z "$bad" ] || { echo "- - - - $bad" && return; }
    for column in 1 2 3 4; do
        out+="$(sort -g -k "$column,$column" "$1" |
            awk -v c=$column '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }') "
    done
    echo "${out}ok"
}

restart() {
    stop "$1"
    "start_$1" || {
        echo "store.sh: $1 did not start again: $(tail -n 1 "$tmp/$1.log")" >&2
        exit 1
    }
}

declare -A figure # figure[LOAD.SERVER.COLUMN]

note() { # LOAD SERVER "OPS P50 P99 P999 STATE"
    local value i=0
    for value in $3; do
        local columns=(ops p50 p99 p999 state)
        figure[$1.$2.${columns[i]}]=$value
        i=$((i + 1))
    done
}

# ratio TEXT OURS THEIRS
ratio() {
    awk -v text="$1" -v a="$2" -v b="$3" 'BEGIN {
        if (a !~ /^[0-9.]+$/ || b !~ /^[0-9.]+$/ || b == 0)
            result = "unknown, a figure is missing"
        else
            result = sprintf("%.2f", a / b)
        printf "    %-26s %s\n", text, result
    }'
}

torch_name=${version[torch]:-torch}
label() {
    [ "$1" = torch ] && echo "$torch_name" || echo "$1"
}

# NAME|what it is|arguments
loads=(
    "add-64|64 connections, synchronous ADD|--op add --connections 64"
    "add-512|512 connections, synchronous ADD|--op add --connections 512"
    "add-deep|64 connections, 16 ADD in flight on each|--op add --connections 64 --depth 16"
    "get-64|64 connections, synchronous GET of 64 bytes|--op get --connections 64"
    "mix-64|64 connections, ADD, SET and GET mixed|--op mix --connections 64"
    "setget-1|1 connection, SET then GET|--op setget --connections 1"
    "setget-core|the same, client and server on one core (no sleeping core to wake)|--op setget --connections 1"
    "empty-1|1 connection, SET then GET of an empty value|--op setget --connections 1 --value-size 0"
    "wake-1|1 waiter, from the set to its wake-up|--op waitwake"
    "wake-500|500 waiters on a key, from the set to the last wake-up|--op waitwake --waiters 500"
)

# LOAD COLUMN PEER
ratios=(
    "add-64 ops torch" "add-64 ops redis"
    "add-512 ops torch"
    "add-deep ops torch" "add-deep ops redis"
    "setget-1 p50 torch" "setget-core p50 torch"
)

# store_bench on the first core.
printf '#!/bin/sh\nexec taskset 1 "%s" "$@"\n' "$(realpath "$bench")" >"$tmp/pinned"
chmod +x "$tmp/pinned"

measure_load() { # LOAD SERVER ARGS...
    local load=$1 name=$2
    shift 2
    if [ "$load" = setget-core ]; then
        local all
        all=$(taskset -p "$$" | sed 's/.*: //')
        taskset -ap 1 "${pid[$name]}" >/dev/null
        bench=$tmp/pinned measure "$name" "$@"
        taskset -ap "$all" "${pid[$name]}" >/dev/null
        return
    fi
    measure "$name" "$@"
}
run_loads() {
    local row load what args name line
    for _ in $(seq "$rounds"); do
        for row in "${loads[@]}"; do
            IFS='|' read -r load what args <<<"$row"
            for name in "${servers[@]}" floor; do
                [ "$name" != floor ] || [[ $load = add-* ]] || continue
                # shellcheck disable=SC2086 # args are words
                line=$(measure_load "$load" "$name" $args)
                echo "$line" >>"$tmp/$load.$name"
                [ "${line##* }" = ok ] || restart "$name"
            done
        done
    done
}

print_load() { # LOAD WHAT
    local load=$1 name row of column peer
    printf '\n%s\n' "$2"
    printf '    %-18s %12s %10s %10s %10s\n' '' ops/s p50 p99 p99.9
    for name in dtrun torch redis floor; do
        [ "$name" != floor ] || [[ $load = add-* ]] || continue
        touch "$tmp/$load.$name"
        note "$load" "$name" "$(median "$tmp/$load.$name")"
        row=$(label "$name")
        local state=${figure[$load.$name.state]}
        [ "$state" = ok ] && state=''
        printf '    %-18s %12s %10s %10s %10s %s\n' "$row" "${figure[$load.$name.ops]}" \
            "${figure[$load.$name.p50]}" "${figure[$load.$name.p99]}" \
            "${figure[$load.$name.p999]}" "$state"
    done
    for row in "${ratios[@]}"; do
        read -r of column peer <<<"$row"
        [ "$of" = "$load" ] || continue
        ratio "$column against $peer" "${figure[$load.dtrun.$column]}" "${figure[$load.$peer.$column]}"
        # What kernel and client allow at most.
        [[ $load != add-* || ${figure[$load.$peer.$column]} = - ]] ||
            ratio "  the floor itself" "${figure[$load.floor.$column]}" "${figure[$load.$peer.$column]}"
    done
    for name in torch redis; do
        ratio "p99 against $name" "${figure[$load.dtrun.p99]}" "${figure[$load.$name.p99]}"
    done
}

# -- memory ---------------------------------------------------------------------------------------

run_memory() {
    local name before line
    declare -A after
    printf '\n%s keys of 32 bytes with values of 1 byte, on a fresh server\n' "$keys"
    printf '    %-18s %14s %14s %12s\n' '' 'KiB before' 'KiB after' 'keys/s'
    for name in "${servers[@]}"; do
        restart "$name"
        before=$(rss "$name")
        line=$(seconds=100 measure "$name" --op fill --keys "$keys" --key-size 32 --value-size 1)
        after[$name]=$(rss "$name")
        printf '    %-18s %14s %14s %12s %s\n' "$(label "$name")" "$before" "${after[$name]}" \
            "${line%% *}" "${line##* }"
        [ "${line##* }" = ok ] || after[$name]='-'
        restart "$name"
    done
    ratio "RSS against redis" "${after[dtrun]:--}" "${after[redis]:--}"
}

# -- abuse ----------------------------------------------------------------------------------------

abuses=(half-request never-read slow-writer random-bytes herd flood big-set)

repeat() { # FILE SERVER: p99 of well-behaved clients, the median of the rounds
    local line
    : >"$1"
    for _ in $(seq "$rounds"); do
        line=$(measure "$2" --op add --connections 8)
        echo "$line" >>"$1"
        [ "${line##* }" = ok ] || break
    done
    median "$1"
}

abuse_once() { # KIND SERVER: "P99-WITHOUT P99-WITH STATE"
    local quiet loud state=ok
    quiet=$(repeat "$tmp/quiet" "$2")
    : >"$tmp/abuse.log"
    # nice: it shall take the server's time, not the measuring client's core on a small machine.
    timeout 200 nice -n 19 "$abuse" --server "127.0.0.1:${port[$2]}" --protocol "${wire[$2]}" --kind "$1" \
        --waiters "$waiters" --seconds 120 >"$tmp/abuse.log" 2>"$tmp/abuse.err" &
    pid[abuse]=$!
    for _ in $(seq 700); do
        ! grep -q '^ready' "$tmp/abuse.log" || break
        kill -0 "${pid[abuse]}" 2>/dev/null || break
        sleep 0.1
    done
    grep -q '^ready' "$tmp/abuse.log" || state=not-established
    loud=$(repeat "$tmp/loud" "$2")
    stop abuse
    [ "${loud##* }" = ok ] || state=${loud##* }
    echo "$(cut -d ' ' -f 3 <<<"$quiet") $(cut -d ' ' -f 3 <<<"$loud") $state"
}

run_abuse() {
    local kind name quiet loud state
    printf '\nAbuse: p99 of 8 well-behaved connections (synchronous ADD), without and with it\n'
    printf '(a big-set may add the time of its largest single request, 8 MiB; the abuser runs at nice 19)\n'
    for kind in "${abuses[@]}"; do
        echo "  $kind"
        for name in "${servers[@]}"; do
            # Not in a subshell: abuse_once() has a process that the trap must know.
            abuse_once "$kind" "$name" >"$tmp/abuse.result"
            read -r quiet loud state <"$tmp/abuse.result"
            if [ "$state" = ok ]; then
                ratio "$(label "$name") $quiet -> $loud" "$loud" "$quiet"
            else
                printf '    %-26s %s\n' "$(label "$name") $quiet ->" "$state"
            fi
            [ "$state" = ok ] || restart "$name"
        done
    done
}

if ! command -v taskset >/dev/null; then
    echo "taskset  absent: no load on one core"
    for i in "${!loads[@]}"; do
        [[ ${loads[i]} != setget-core* ]] || unset "loads[i]"
    done
fi
run_loads
for row in "${loads[@]}"; do
    IFS='|' read -r load what _ <<<"$row"
    print_load "$load" "$what"
done
run_memory
run_abuse
