#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the rendezvous of elastic jobs. First its cost: the agents of one job, a hundred to ten
# thousand of them played by one process over loopback, join, lose one, join again, and beat;
# beside it PyTorch's own with a hundred, and what torchelastic states for 4,000 hosts: 10 s, and
# 373 s before the exchange of ranks was mended (pull request 124982 of PyTorch).
# Then whole jobs beside torchrun's, with the same workers on one host: how long until all workers
# run, and after an agent was killed until those of the others run again. Torchrun is that of
# PyTorch 2.6 in the trixie root (scripts/make-root trixie). Medians of the rounds.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
# shellcheck disable=SC2016 # what looks like the shell's in single quotes are fields of awk
set -u
export LC_ALL=C

usage="Usage: rendezvous.sh [--build DIR] [--rounds N] [--seconds S] [--patience S]
  --build DIR    where the project is built (build), best as a release
  --rounds N     rounds of each measurement (3); torchrun gets one
  --seconds S    how long agents beat as fast as they are answered (2)
  --patience S   how long torchrun's workers are waited for after an agent was killed (40)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=build rounds=3 seconds=2 patience=40
sizes=(100 1000 4000 10000)
grace=0.9 # seconds that a closed connection has to come back, by default

. "$top/bench/lib.sh"
read_options "--build --rounds --seconds --patience" "" "$@"
check_number --rounds 2
check_number --seconds 2
check_number --patience 3
find_build rendezvous/dtrun-rendezvous launcher/dtrun bench/rendezvous/rdzv_crowd bench/rendezvous/job_mark
daemon=$build/rendezvous/dtrun-rendezvous
dtrun=$build/launcher/dtrun
tools=$build/bench/rendezvous

. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
torch=
if [ -d "$roots/trixie" ]; then
    torch=$(root_torch trixie) || torch=
fi
tmp=$(mktemp -d /dev/shm/dtrun-bench-XXXXXX) || exit 1
state=$(mktemp -d) || exit 1 # a journal belongs on a disk
pid=
finish() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null
    wait
    rm -rf "$tmp" "$state"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP PIPE
cores=$(nproc) # which looks at OMP_NUM_THREADS
export OMP_NUM_THREADS=1
ulimit -n "$(ulimit -Hn)"

# figure WORDS VALUE
figure() {
    printf '    %-52s %10s\n' "$1" "$2"
}

# calc EXPRESSION [FORMAT]
calc() {
    awk "BEGIN { printf \"${2:-%.1f}\", $1 }"
}

median() { # of the numbers on its input
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

say_machine "$cores"
echo "dtrun    $("$dtrun" --version)"
echo "torchrun ${torch:-of PyTorch 2.6 is not here: scripts/make-root trixie}"

# -- one rendezvous, many agents ------------------------------------------------------------------

# play AGENTS [OPTION...]: what rdzv_crowd prints, with a fresh rendezvous each round
play() {
    local agents=$1 port i
    shift
    for ((i = 0; i < rounds; i++)); do
        port=
        rm -rf "${state:?}"/*
        "$daemon" --listen 127.0.0.1:0 "$@" 2>"$tmp/daemon.log" &
        pid=$!
        for _ in $(seq 100); do
            port=$(sed -n 's/.*listening on .*:\([0-9][0-9]*\).*/\1/p' "$tmp/daemon.log")
            [ -z "$port" ] || break
            sleep 0.05
        done
        "$tools/rdzv_crowd" --server "127.0.0.1:$port" --agents "$agents" --pid "$pid" --seconds "$seconds" || return 1
        kill "$pid"
        wait "$pid"
        pid=
    done
}

# of AGENTS PHASE EXPRESSION: the median over the rounds; awk's fields are those of the phase's row
of() {
    awk "\$1 == \"$2\" { print $3 }" "$tmp/crowd-$1" | median
}

# measure_crowds NAME [OPTION...]
measure_crowds() {
    local name=$1 n
    shift
    printf '\n%s: milliseconds, and (those of its processor time)\n' "$name"
    printf '    %6s %18s %18s %14s %18s %12s %9s\n' agents 'all have a world' 'all told to stop' 'without grace' \
        'all have the next' 'beats/core s' 'peak KiB'
    for n in "${sizes[@]}"; do
        play "$n" "$@" >"$tmp/crowd-$n" || {
            echo "rendezvous.sh: $n agents could not be measured." >&2
            return 1
        }
        printf '    %6d %18s %18s %14.1f %18s %12.0f %9d\n' "$n" \
            "$(printf '%.1f (%.1f)' "$(of "$n" join '$2 * 1e3')" "$(of "$n" join '$3 * 1e3')")" \
            "$(printf '%.1f (%.1f)' "$(of "$n" stop '$2 * 1e3')" "$(of "$n" stop '$3 * 1e3')")" \
            "$(of "$n" stop "(\$2 - $grace) * 1e3")" \
            "$(printf '%.1f (%.1f)' "$(of "$n" rejoin '$2 * 1e3')" "$(of "$n" rejoin '$3 * 1e3')")" \
            "$(of "$n" beat '$4 / $3')" "$(of "$n" memory '$2')"
    done
    for n in "${sizes[0]}" "${sizes[-1]}"; do
        printf '    each of %d: %.2f messages up and %.2f down (%.0f and %.0f bytes) for a world, ' "$n" \
            "$(of "$n" join "\$4 / $n")" "$(of "$n" join "\$5 / $n")" "$(of "$n" join "\$6 / $n")" \
            "$(of "$n" join "\$7 / $n")"
        printf '%.2f and %.2f for the next\n' "$(of "$n" rejoin "\$4 / ($n - 1)")" \
            "$(of "$n" rejoin "\$5 / ($n - 1)")"
    done
    figure '10000 agents have a world, s' "$(calc "$(of 10000 join '$2')" %.2f)"
    figure 'peak memory with them, MiB' "$(calc "$(of 10000 memory '$2') / 1024")"
    figure 'processor time of a node, of 10000 against of 1000' \
        "$(calc "$(of 10000 join '$3') / $(of 1000 join '$3') / 10" %.2f)"
    printf '    %-52s %10s\n' '4000 agents, sooner than what torchelastic states' \
        "$(calc "10 / $(of 4000 join '$2')")"
    printf '    %-52s %10s\n' "beats of a core, against 10000 agents' each 5 s" \
        "$(calc "$(of 10000 beat '$4 / $3') / 2000")"
}

# The same of PyTorch's own, of as many agents as fit here: each is a process.
measure_torch_crowd() {
    local took
    [ -n "$torch" ] || return 0
    took=$(root_run trixie python3 "/host$here/rendezvous/torch_crowd.py" "${sizes[0]}" \
        $((20000 + RANDOM % 10000)) 120 2>"$tmp/torch.log")
    printf '\n%d agents at the rendezvous of PyTorch %s: %s s until all have finished it\n' "${sizes[0]}" "$torch" \
        "${took:=never}"
    [ "$took" = never ] || printf '    %-52s %10s\n' 'dtrun is sooner' \
        "$(calc "$took / $(of "${sizes[0]}" join '$2')" %.0f)"
}

measure_crowds 'a rendezvous without --state-dir' || exit 1
measure_torch_crowd
measure_crowds 'a rendezvous with --state-dir' --state-dir "$state" || exit 1

# -- whole jobs -----------------------------------------------------------------------------------

# When, in microseconds since 1970, the first of the agents was told that round 0 is over.
decided() { # FOLDER
    local at
    at=$(sed -n 's/^\([^ ]*\) dtrun .*round 0 is over.*/\1/p' "$1"/agent-* | sort | head -n 1)
    [ -n "$at" ] && echo "$(($(date -d "$at" +%s%N) / 1000))"
}

# Rows: JOIN KILL-TO-RUNNING KILL-TO-DECISION DECISION-TO-RUNNING, in ms
jobs_of_dtrun() { # AGENTS
    local i folder join killed again decision
    for ((i = 0; i < rounds; i++)); do
        folder=$tmp/dtrun-$1-$i
        mkdir "$folder"
        read -r join killed again <<<"$("$here/rendezvous/agents.sh" "$1" $((20000 + RANDOM % 10000)) 0.5 \
            "$patience" "$folder" "$tools/job_mark" "$dtrun")"
        decision=$(decided "$folder") || return 1
        awk -v join="$join" -v again="$again" -v decision="$((decision - killed))" 'BEGIN {
            print join / 1e3, again / 1e3, decision / 1e3, (again - decision) / 1e3
        }'
    done
}

# Row: JOIN KILL-TO-RUNNING, the last "never" where it is that
jobs_of_torchrun() { # AGENTS
    local folder=$tmp/torchrun-$1 join again
    mkdir "$folder"
    read -r join _ again <<<"$(root_run trixie bash "/host$here/rendezvous/agents.sh" "$1" \
        $((20000 + RANDOM % 10000)) 10 "$patience" "/host$folder" "/host$tools/job_mark" \
        python3 -m torch.distributed.run)"
    [ -n "$again" ] || return 1
    awk -v join="$join" -v again="$again" 'BEGIN { print join / 1e3, again == "never" ? again : again / 1e3 }'
}

column() { # FILE FIELD
    awk -v field="$2" '{ print $field }' "$1" | median
}

# measure_jobs AGENTS
measure_jobs() {
    local join again
    printf '\na job of %d agents with 2 workers each on one host, c10d at localhost: milliseconds\n' "$1"
    printf '    from the start of the last agent until all workers run, and from its death by kill -9 until those of the\n'
    printf '    others run anew\n'
    jobs_of_dtrun "$1" >"$tmp/jobs" || return 1
    printf '    %-22s %12.1f %18.1f\n' dtrun "$(column "$tmp/jobs" 1)" "$(column "$tmp/jobs" 2)"
    if [ -n "$torch" ]; then
        read -r join again <<<"$(jobs_of_torchrun "$1")"
        [ "$again" != never ] || again="never in $patience s"
        printf '    %-22s %12.1f %18s\n' "torchrun $torch" "$join" "$again"
        printf '    %-52s %10s\n' 'sooner than torchrun' \
            "$(calc "$join / $(column "$tmp/jobs" 1)")"
    fi
    figure 'from the kill until it is acted upon, ms' "$(calc "$(column "$tmp/jobs" 3)")"
    figure 'from then until all others run anew, ms' "$(calc "$(column "$tmp/jobs" 4)")"
}

for agents in 2 4; do
    measure_jobs "$agents" || {
        echo "rendezvous.sh: a job of $agents agents could not be measured." >&2
        exit 1
    }
done
