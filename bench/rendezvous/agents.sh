#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# agents.sh AGENTS PORT SETTLE PATIENCE FOLDER WORKER LAUNCHER...: the agents of one c10d job on one host,
# with two workers each. The last is started when the others have waited SETTLE seconds, and killed with
# SIGKILL when all workers run. Prints the microseconds from its start until all did, when it was killed
# (since 1970), and the microseconds from there until all workers of the others had been started anew, or
# "never" for not within PATIENCE seconds. FOLDER is new: the workers' marks, and each agent's output.
# A script of its own since it runs inside the root that has torchrun as well.
set -u
agents=$1 port=$2 settle=$3 patience=$4 folder=$5 worker=$6
shift 6
workers=2
marks=$folder/marks
pids=()

now() {
    echo "${EPOCHREALTIME/[^0-9]/}"
}

start() { # AGENT LAUNCHER...
    local agent=$1
    shift
    "$@" --log-dir "$folder/logs-$agent" --nnodes "$((agents - 1)):$agents" --nproc-per-node $workers \
        --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint "localhost:$port" --rdzv-id bench \
        --no-python "$worker" "$marks" >"$folder/agent-$agent" 2>&1 &
    pids[agent]=$!
}

# await WORLD SECONDS: when the last worker of a world of that size had begun; "never"
await() {
    local end=$(($(now) + $2 * 1000000)) last
    while [ "$(now)" -lt "$end" ]; do
        last=$(awk -v world="$1" '$3 == world { n++; t = $1 > t ? $1 : t } END { if (n == world) printf "%.0f", t / 1000 }' \
            "$marks" 2>/dev/null)
        [ -z "$last" ] || break
        sleep 0.05
    done
    echo "${last:-never}"
}

trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
for ((i = 0; i < agents - 1; i++)); do
    start "$i" "$@"
done
sleep "$settle"
begun=$(now)
start $((agents - 1)) "$@"
joined=$(await $((agents * workers)) 60)
[ "$joined" != never ] || {
    echo "agents.sh: no world of $agents agents within 60 s; see $folder." >&2
    exit 1
}
last=${pids[agents - 1]}
disown "$last" # or the shell says that it was killed
unset "pids[agents - 1]"
killed=$(now)
kill -KILL "$last"
again=$(await $(((agents - 1) * workers)) "$patience")
[ "$again" = never ] || again=$((again - killed))
echo "$((joined - begun)) $killed $again"
