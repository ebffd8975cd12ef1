#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# public.sh TOP LIBRARY CC...: the headers of libdtrun, as they are installed. The library exports what they declare and
# nothing else, and each of them compiles alone, in C11 and in C++. Speaks TAP.
set -eu
top=$1 library=$2
shift 2
. "$top/tests/lib/tap.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/dtrun"
cp "$top"/worker_runtime/include/dtrun/*.h "$tmp/dtrun"
cp "$top/base/err.h" "$tmp/dtrun/err.h" # in the tree a header of one line stands for it

# result WHAT: it failed where there are complaints.
result()
{
    if [ ! -s "$tmp/out" ]; then
        tap_ok "$1"
    else
        tap_not_ok "$1" <"$tmp/out"
    fi
}

# The name stands in front of the first parenthesis behind DT_API.
declared()
{
    cat "$tmp"/dtrun/*.h | grep -v '^#define' | tr '\n' ' ' | grep -o 'DT_API [^(;]*(' | sed 's/($//; s/.*[ *]//' | sort
}

# Names with two underscores are the compiler's: sanitizers add some.
exported()
{
    nm -D --defined-only "$library" | awk '{ print $NF }' | grep -v '^__' | sort
}

# alone COMPILER...: complaints about each header.
alone()
{
    for header in "$tmp"/dtrun/*.h; do
        "$@" -Wall -Wextra -pedantic -Werror -I"$tmp" -fsyntax-only -include "$header" /dev/null 2>&1 || echo "in $header"
    done
}

echo 1..4
declared >"$tmp/declared"
cp "$tmp/declared" "$tmp/out"
[ "$(wc -l <"$tmp/declared")" -lt 50 ] || : >"$tmp/out"
result 'the headers declare functions'
exported >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" >"$tmp/out" || :
result 'the library exports those, and nothing else'
alone "$@" -std=c11 -x c >"$tmp/out"
result 'each header compiles alone in C11'
for cxx in "${CXX:-}" c++ g++ clang++ ''; do
    [ -z "$cxx" ] || ! command -v "$cxx" >/dev/null || break
done
if [ -n "$cxx" ]; then
    alone "$cxx" -std=c++11 -x c++ >"$tmp/out"
    result 'each header compiles alone in C++'
else
    tap_skip 'each header compiles alone in C++' 'there is no C++ compiler (package g++)'
fi
exit $failed
