#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Texts to tokens beside Hugging Face's library, in one run on this machine, with the tokenizers of eight families of models:
# the same files (this system's Python sources and headers, and one text of everything that is difficult), the same tokens,
# which are compared one by one. Ours is timed from start to end, with tokenizer.json read and the file written; of the library
# only the calls that encode.
# Needs Node.js and Python, and `npm i tokenizers` run in a folder.
# Exit status: 0 when measured and equal; 1 when not; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: tokenize.sh --library DIR [--build DIR] [--rounds N] [--megabytes N] [--threads N] [--families \"NAME...\"]
  --library DIR      where npm i tokenizers was run
  --build DIR        where the project is built (build), best as a release
  --rounds N         rounds of each measurement (3)
  --megabytes N      of texts, about (20)
  --threads N        threads, and processors, of each side (1)
  --families NAMES   of gpt2 llama3 qwen2 tekken smollm llama2 mistral gemma (all)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build rounds=3 megabytes=20 threads=1 library=
families="gpt2 llama3 qwen2 tekken smollm llama2 mistral gemma"
. "$top/bench/lib.sh"
read_options "--build --rounds --megabytes --threads --library --families" "" "$@"
check_number --rounds 2
check_number --megabytes 4
check_number --threads 2
find_build worker_runtime/dtrun-train
[ -d "$library/node_modules/tokenizers" ] || refuse "--library: no folder in which npm i tokenizers was run."
library=$(cd "$library" && pwd)
train=$build/worker_runtime/dtrun-train

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 "$here/tokenize/mixed.py" "$tmp/mixed.txt" $((megabytes * 100000)) 1
find /usr/lib/python3* /usr/include -type f \( -name '*.py' -o -name '*.h' \) -size +1k -printf '%s %p\n' | sort -k 2 |
    awk -v most=$((megabytes * 900000)) '{ all += $1; if (all > most) exit; print $2 }' >"$tmp/list"
head -n 60 "$tmp/list" | tr '\n' '\0' | xargs -0 python3 "$here/tokenize/families.py" "$tmp/models"
echo "$tmp/mixed.txt" >>"$tmp/list"
mapfile -t files <"$tmp/list"
bytes=$(cat "${files[@]}" | wc -c)

say_machine "$threads"
echo "library  tokenizers $(sed -n 's/^  "version": "\(.*\)".*/\1/p' "$library/node_modules/tokenizers/package.json")"
echo "texts    ${#files[@]} files, $((bytes / 1000000)) MB; best of $rounds rounds, $threads thread(s) each"
printf '%-10s %10s %14s %14s %8s\n' family tokens "ours MB/s" "library MB/s" faster
for family in $families; do
    model=$tmp/models/$family best_ours=999999 best_theirs=999999
    [ -d "$model" ] || refuse "--families: $family is none."
    for _ in $(seq "$rounds"); do
        theirs=$(RAYON_NUM_THREADS=$threads taskset -c "0-$((threads - 1))" \
            node "$here/tokenize/library.js" "$library" "$model/tokenizer.json" "$tmp/theirs" "${files[@]}")
        before=$(date +%s%N)
        taskset -c "0-$((threads - 1))" "$train" tokenize --tokenizer "$model" "${files[@]}" -o "$tmp/ours" >"$tmp/said" 2>&1 || {
            cat "$tmp/said" >&2
            exit 1
        }
        ours=$((($(date +%s%N) - before) / 1000000))
        theirs=$(awk "BEGIN { print int($theirs * 1000) }")
        [ "$ours" -ge "$best_ours" ] || best_ours=$ours
        [ "$theirs" -ge "$best_theirs" ] || best_theirs=$theirs
    done
    tokens=$(python3 "$here/tokenize/same.py" "$tmp/ours" "$tmp/theirs")
    awk "BEGIN { printf \"%-10s %10d %14.1f %14.1f %8.1f\n\", \"$family\", $tokens, $bytes / 1000 / $best_ours,
        $bytes / 1000 / $best_theirs, $best_theirs / $best_ours }"
done
