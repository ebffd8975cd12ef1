#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures dtrun and torchrun side by side, in one run on one machine: a job that does nothing, a
# restart, and teed output; and against the floor, which is bare fork, exec and wait. Torchrun is
# that of PyTorch 2.6 in the trixie root (scripts/make-root trixie). Medians of the runs.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
set -u
export LC_ALL=C

usage="Usage: launch.sh [--build DIR] [--runs N] [--mib N]
  --build DIR   where the project is built (build), best as a release
  --runs N      runs of dtrun for each figure (31); torchrun gets a tenth, at least 3
  --mib N       what each of 8 workers writes in the tee measurement (256); torchrun: 4"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=build runs=31 mib=256

. "$top/bench/lib.sh"
read_options "--build --runs --mib" "" "$@"
check_number --runs 3
check_number --mib 5
find_build launcher/dtrun
dtrun=$build/launcher/dtrun
tools=$build/bench/launch
few=$((runs / 10 > 3 ? runs / 10 : 3))

. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
torch=
if [ -d "$roots/trixie" ]; then
    torch=$(root_torch trixie) || torch=
fi
tmp=$(mktemp -d /dev/shm/dtrun-bench-XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
cores=$(nproc) # which looks at OMP_NUM_THREADS
export OMP_NUM_THREADS=1

# Runs torchrun in the root; it sees our files below /host.
cat >"$tmp/torchrun" <<END
#!/bin/bash
top=$top
. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
root_run trixie python3 -m torch.distributed.run "\$@"
END
chmod +x "$tmp/torchrun"

ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
}

# figure WORDS VALUE
figure() {
    printf '    %-34s %10s\n' "$1" "$2"
}

row() {
    printf '    %-22s %12s %12s %12s\n' "$@"
}

say_machine "$cores"
echo "dtrun    $("$dtrun" --version)"
echo "torchrun ${torch:-of PyTorch 2.6 is not here: scripts/make-root trixie}"

for workers in 2 64; do
    printf '\na job of %d workers that do nothing (/bin/true)\n' "$workers"
    row '' 'wall ms' 'cpu ms' 'rss KiB'
    read -r floor_wall floor_cpu floor_rss <<<"$("$tools/job_time" "$runs" "$tools/job_floor" "$workers" /bin/true)"
    row 'fork, exec, wait' "$floor_wall" "$floor_cpu" "$floor_rss"
    read -r wall cpu rss <<<"$("$tools/job_time" "$runs" "$dtrun" --log-dir "$tmp/logs" --nproc-per-node "$workers" --no-python /bin/true)"
    row dtrun "$wall" "$cpu" "$rss"
    if [ -n "$torch" ]; then
        read -r torch_wall torch_cpu torch_rss <<<"$("$tools/job_time" "$few" "$tmp/torchrun" --nproc-per-node "$workers" --no-python /bin/true)"
        row "torchrun $torch" "$torch_wall" "$torch_cpu" "$torch_rss"
        figure 'sooner than torchrun' "$(ratio "$torch_wall" "$wall")"
    fi
    figure 'against fork, exec, wait' "$(ratio "$wall" "$floor_wall")"
done

# restart COMMAND...: the median of what job_restart reports.
restart() {
    local n=$1 i
    shift
    for ((i = 0; i < n; i++)); do
        rm -f "$tmp/restart"
        "$@" --max-restarts 1 --nproc-per-node 8 --no-python "$worker" "$file" >/dev/null 2>&1 || return 1
        "$tools/job_restart" "$tmp/restart" report || return 1
    done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

printf '\na crash of one of 8 workers, until all run again\n'
worker=$tools/job_restart file=$tmp/restart
ours=$(restart "$runs" "$dtrun" --log-dir "$tmp/logs")
printf '    %-22s %12s ms\n' dtrun "$ours"
if [ -n "$torch" ]; then
    worker=/host$tools/job_restart file=/host$tmp/restart
    theirs=$(restart "$few" "$tmp/torchrun")
    printf '    %-22s %12s ms\n' "torchrun $torch" "$theirs"
    figure 'against torchrun' "$(ratio "$ours" "$theirs")"
fi

# tee_speed NAME TIMES MIB BYTES PROGRAM COMMAND...: sets $speed to the MB/s of workers' output, the
# median of so many times, and prints what became of the lines in all of them.
tee_speed() {
    local name=$1 times=$2 mib=$3 bytes=$4 program=$5 begun ended lost torn misplaced shown i
    local sum_lost=0 sum_torn=0 sum_misplaced=0 speeds=
    shift 5
    for ((i = 0; i < times; i++)); do
        rm -rf "$tmp/tee"
        begun=$(date +%s%N)
        read -r lost torn misplaced shown <<<"$("$@" --log-dir "$tee_dir" --tee 3 --nproc-per-node 8 \
            --no-python "$program" "$mib" "$bytes" 2>/dev/null | "$tools/job_flood" check 8 "$mib")"
        ended=$(date +%s%N)
        speeds+=$(awk -v b="$((8 * mib * 1048576))" -v t="$((ended - begun))" 'BEGIN { printf "%.0f", b / t * 1000 }')$'\n'
        sum_lost=$((sum_lost + lost)) sum_torn=$((sum_torn + torn)) sum_misplaced=$((sum_misplaced + misplaced))
    done
    speed=$(sort -n <<<"${speeds%$'\n'}" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
    printf '    %-22s %8s MB/s (%s), %d lines lost, %d torn, %d out of order; %d bytes shown\n' \
        "$name" "$speed" "${speeds//$'\n'/ }" "$sum_lost" "$sum_torn" "$sum_misplaced" "$shown"
}

for bytes in 4096 100; do
    printf '\ntee: 8 workers write %d MiB each, %d bytes at a time, lines of 100 bytes\n' "$mib" "$bytes"
    tee_dir=$tmp/tee
    tee_speed dtrun 5 "$mib" "$bytes" "$tools/job_flood" "$dtrun"
    ours=$speed
    if [ -n "$torch" ]; then
        tee_dir=/host$tmp/tee
        tee_speed "torchrun $torch" 1 4 "$bytes" "/host$tools/job_flood" "$tmp/torchrun"
        printf '    %-34s %10s\n' 'against torchrun' "$(ratio "$ours" "$speed")"
    fi
done
