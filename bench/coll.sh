#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures collectives between processes of one host: the all-reduce of libdtrun beside PyTorch's
# gloo (the system's PyTorch, and that of the trixie root, scripts/make-root trixie) and Open MPI's
# shared memory. The engines take turns in each round and the best time of all rounds counts: what
# else runs on the machine only ever makes times longer. Then how long survivors of a kill -9 wait
# for their error.
# Exit status: 0 when measured; 1 when something could not be; 2 for a bad command line.
# shellcheck disable=SC2016 # what looks like the shell's in single quotes are fields of awk
set -u
export LC_ALL=C

usage="Usage: coll.sh [--build DIR] [--rounds N] [--repeats N]
  --build DIR    where the project is built (build), best as a release
  --rounds N     rounds in which each engine has a turn (3)
  --repeats N    how often each size is timed in a turn (5)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=build rounds=3 repeats=5

. "$top/bench/lib.sh"
read_options "--build --rounds --repeats" "" "$@"
check_number --rounds 2
check_number --repeats 2
find_build bench/coll/coll_bench
bench=$build/bench/coll/coll_bench

. "$top/scripts/lib/packages.sh"
. "$top/scripts/lib/roots.sh"
install_packages openmpi-bin libopenmpi-dev python3-torch >&2 || exit 1
trixie=
if [ -d "$roots/trixie" ]; then
    trixie=$(root_torch trixie) || trixie=
fi
system=$(/usr/bin/python3 -c 'import torch; print(torch.__version__)') || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM HUP PIPE
mpicc -O2 -o "$tmp/mpi_bench" "$here/coll/mpi_bench.c" || exit 1
cores=$(nproc)
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo OMPI_MCA_btl=self,vader

say_machine "$cores"
echo "PyTorch  $system (the system's), ${trixie:-none of Debian 13: scripts/make-root trixie}"
echo "MPI      $(mpirun --version | head -n 1)"

# turn ENGINE RANKS: one turn of it, rows of bytes and microseconds
turn() {
    case $1 in
    allocated | ordinary) "$bench" --ranks "$2" --repeats "$repeats" --memory "$1" ;;
    gloo) /usr/bin/python3 "$here/coll/gloo_bench.py" "$2" "$repeats" ;;
    gloo-trixie) root_run trixie python3 "/host$here/coll/gloo_bench.py" "$2" "$repeats" ;;
    mpi) mpirun --allow-run-as-root --oversubscribe -np "$2" "$tmp/mpi_bench" "$repeats" ;;
    esac
}

engines="allocated ordinary mpi gloo"
[ -z "$trixie" ] || engines="$engines gloo-trixie"

# best ENGINE RANKS BYTES: microseconds
best() {
    awk -v bytes="$3" '$1 == bytes && (!best || $2 < best) { best = $2 } END { print best }' "$tmp/$1-$2"
}

# figure WORDS VALUE
figure() {
    printf '    %-52s %10s\n' "$1" "$2"
}

ratio() { # A B
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'
}

# measure RANKS
measure() {
    local engine bytes i
    for ((i = 0; i < rounds; i++)); do
        for engine in $engines; do
            turn "$engine" "$1" >>"$tmp/$engine-$1" 2>"$tmp/log" || {
                cat "$tmp/log" >&2
                echo "coll.sh: $engine could not be measured with $1 ranks." >&2
                return 1
            }
        done
    done
    printf '\nall-reduce of fp32, %d ranks on %d cores: microseconds, (GB/s), and how many times that of libdtrun\n' "$1" "$cores"
    printf '    %-12s' bytes
    for engine in $engines; do
        printf ' %28s' "$engine"
    done
    printf '\n'
    for bytes in 4096 262144 4194304 67108864; do
        printf '    %-12d' "$bytes"
        for engine in $engines; do
            awk -v us="$(best "$engine" "$1" "$bytes")" -v own="$(best allocated "$1" "$bytes")" -v bytes="$bytes" \
                'BEGIN { printf " %28s", sprintf("%.1f (%.2f) %.1fx", us, bytes / us / 1e3, us / own) }'
        done
        printf '\n'
    done
}

# deaths: milliseconds, the median and the longest of its input
deaths() {
    sort -n | awk '{ v[NR] = $1 } END { printf "%.1f %.1f\n", v[int((NR + 1) / 2)], v[NR] }'
}

measure 2 || exit 1
figure '64 MiB, times as fast as gloo' \
    "$(ratio "$(best gloo 2 67108864)" "$(best allocated 2 67108864)")"
if [ -n "$trixie" ]; then
    figure "64 MiB, times as fast as gloo of PyTorch $trixie" \
        "$(ratio "$(best gloo-trixie 2 67108864)" "$(best allocated 2 67108864)")"
fi
measure 4 || exit 1

printf '\nkill -9 of a rank among 3: milliseconds until the last survivor has its error, median and longest of 10\n'
read -r middle longest < <("$bench" --ranks 3 --deaths 10 | deaths)
printf '    %-12s %10s %10s\n' libdtrun "$middle" "$longest"
read -r gloo_middle gloo_longest < <(/usr/bin/python3 "$here/coll/gloo_bench.py" 3 1 10 2>"$tmp/log" | deaths)
printf '    %-12s %10s %10s\n' gloo "$gloo_middle" "$gloo_longest"
