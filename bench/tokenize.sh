#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Texts to tokens beside Hugging Face's library, in one run on this machine, with the tokenizers of eight families of models:
# the same files (this system's Python sources and headers, and one text of everything that is difficult), the same tokens,
# which are compared one by one. Ours is timed from start to end, with tokenizer.json read and the file written; of the library
# only the calls that encode.
# With --equal nothing is timed: made texts of --megabytes, of which no part is there twice, and all of their tokens are compared.
# Needs Node.js and Python, and `npm i tokenizers` run in a folder.
# Exit status: 0 when measured and equal; 1 when not; 2 for a bad command line.
set -eu
export LC_ALL=C

usage="Usage: tokenize.sh --library DIR [--build DIR] [--rounds N] [--megabytes N] [--threads N] [--families \"NAME...\"]
       tokenize.sh --library DIR --equal [--build DIR] [--megabytes N] [--threads N] [--families \"NAME...\"] [--seed N] [--minutes N]
  --library DIR      where npm i tokenizers was run
  --build DIR        where the project is built (build), best as a release
  --rounds N         rounds of each measurement (3)
  --megabytes N      of texts, about (20)
  --threads N        threads, and processors, of each side (1); with --equal, families at a time, of one thread each
  --families NAMES   of gpt2 llama3 qwen2 tekken smollm llama2 mistral gemma (all)
  --equal            do not time: compare the tokens of made texts
  --seed N           of these texts (1)
  --minutes N        begin none of their parts, of 4 MiB, after these (1440)"

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
build=$top/build rounds=3 megabytes=20 threads=1 library='' equal='' seed=1 minutes=1440
families="gpt2 llama3 qwen2 tekken smollm llama2 mistral gemma"
. "$top/bench/lib.sh"
read_options "--build --rounds --megabytes --threads --library --families --seed --minutes" "--equal" "$@"
check_number --rounds 2
check_number --megabytes 4
check_number --threads 2
check_number --seed 9
check_number --minutes 4
find_build worker_runtime/dtrun-train
[ -d "$library/node_modules/tokenizers" ] || refuse "--library: no folder in which npm i tokenizers was run."
library=$(cd "$library" && pwd)
train=$build/worker_runtime/dtrun-train

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Bytes of this system's texts, which are always the same ones where there are enough
find_texts() {
    find /usr/lib/python3* /usr/include -type f \( -name '*.py' -o -name '*.h' \) -size +1k -printf '%s %p\n' | sort -k 2 |
        awk -v most="$1" '{ all += $1; if (all > most) exit; print $2 }'
}
find_texts 20000000 | head -n 60 >"$tmp/list"
if [ -n "$equal" ]; then # words of all scripts, too
    python3 "$here/tokenize/texts.py" "$tmp/words" 2000000 words
    find "$tmp/words" -type f | sort >>"$tmp/list"
fi
tr '\n' '\0' <"$tmp/list" | xargs -0 python3 "$here/tokenize/families.py" "$tmp/models"
for family in $families; do
    [ -d "$tmp/models/$family" ] || refuse "--families: $family is none."
done
say_machine "$threads"
echo "library  tokenizers $(sed -n 's/^  "version": "\(.*\)".*/\1/p' "$library/node_modules/tokenizers/package.json")"
if [ -n "$equal" ]; then
    # shellcheck disable=SC2086 # families are words
    python3 "$here/tokenize/equal.py" "$train" "$library" "$tmp/models" "$tmp" "$megabytes" "$seed" "$threads" "$minutes" $families
    exit
fi

python3 "$here/tokenize/mixed.py" "$tmp/mixed.txt" $((megabytes * 100000)) 1
find_texts $((megabytes * 900000)) >"$tmp/list"
echo "$tmp/mixed.txt" >>"$tmp/list"
mapfile -t files <"$tmp/list"
bytes=$(cat "${files[@]}" | wc -c)
echo "texts    ${#files[@]} files, $((bytes / 1000000)) MB; best of $rounds rounds, $threads thread(s) each"
printf '%-10s %10s %14s %14s %8s\n' family tokens "ours MB/s" "library MB/s" faster
for family in $families; do
    model=$tmp/models/$family best_ours=999999 best_theirs=999999
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
