#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs.sh [TOP]: each file and folder that the documents name is there, and pictures show the figures that they are drawn from.
# Speaks TAP. Without TOP it first proves on a planted tree that it would notice.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/lib/tap.sh"
top=${1:-$here}

# Prints "DOCUMENT:LINE: NAME" for each `path/of/source.c`, `path/of/folder/` and [link](file.md) that leads nowhere. Documents
# leave out the front of a long path, as in `hosts/sum.c`; a link is relative to its document.
missing()
{
    (cd "$1" && find . -name .git -prune -o -path './build*' -prune -o \( -type d -printf '/ %p/\n' \) -o -printf '/ %p\n' |
        awk '
            # The lines of find come first.
            FILENAME == "-" {
                path = substr($0, 5)
                there[path] = 1
                do
                    ends[path] = 1
                while (sub(/^[^\/]+\//, "", path) && path != "")
                next
            }
            function check(name, known) {
                if (!(name in known))
                    print FILENAME ":" FNR ": " name
            }
            {
                rest = $0
                while (match(rest, /`[a-z][A-Za-z0-9_.\/-]*`/)) {
                    name = substr(rest, RSTART + 1, RLENGTH - 2)
                    rest = substr(rest, RSTART + RLENGTH)
                    if (name !~ /noun/ && (name ~ /\.(c|h|cu|cuh|py|sh)$/ || name ~ /\/.+\/$/))
                        check(name, ends)
                }
                rest = $0
                while (match(rest, /\]\([^):#]+/)) {
                    name = substr(rest, RSTART + 2, RLENGTH - 2)
                    rest = substr(rest, RSTART + RLENGTH)
                    if (rest ~ /^:/)
                        continue # an address of the web
                    folder = FILENAME
                    sub(/[^\/]*$/, "", folder)
                    name = folder name
                    while (sub(/[^\/]+\/\.\.\//, "", name))
                        ;
                    check(name, there)
                }
            }' - README.md CONTRIBUTING.md docs/*.md)
}

[ -d "$top/docs" ] || {
    echo "docs.sh: $top is not a tree of dtrun's sources: it has no folder docs" >&2
    exit 2
}
if [ $# -eq 0 ]; then
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' EXIT
    mkdir -p "$planted/docs" "$planted/agent/output"
    touch "$planted/agent/output/lines.c"
    # shellcheck disable=SC2016 # these are backticks of Markdown
    echo 'Lines: `agent/output/lines.c`, `output/lines.c`, `agent/output/`, [more](docs/more.md), [web](https://a.b/c)' \
        >"$planted/README.md"
    # shellcheck disable=SC2016
    echo 'Gone: `agent/lines.c`, `agent/put/lines.c`, `agent/input/`, [x](more.md)' >"$planted/CONTRIBUTING.md"
    echo 'See [the first page](../README.md), and [another](README.md).' >"$planted/docs/more.md"
    echo 1..3
    if [ "$(missing "$planted" | wc -l)" -eq 5 ]; then
        tap_ok 'planted names that lead nowhere are noticed'
    else
        missing "$planted" | tap_not_ok 'planted names that lead nowhere are noticed'
    fi
else
    echo 1..2
fi

gone=$(missing "$top")
if [ -z "$gone" ]; then
    tap_ok 'documents name only files that are there'
else
    echo "$gone" | tap_not_ok 'documents name only files that are there'
fi
if stale=$("$top/docs/pictures/draw.py" --check 2>&1); then
    tap_ok 'pictures show the figures that they are drawn from'
else
    echo "$stale" | tap_not_ok 'pictures show the figures that they are drawn from'
fi
exit "$failed"
