#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# layers.sh [TOP]: no include points up. Each floor may include from the floors listed behind it, and libuv stays out of
# what a worker or dtrun-ctl links. Speaks TAP. Without TOP it first proves on a planted tree that it would notice.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/lib/tap.sh"
top=${1:-$here}

# Floor: what it may include. A floor that is missing here may include nothing of ours.
allowed()
{
    case $1 in
    base) echo base ;;
    rendezvous/protocol) echo base rendezvous/protocol ;;
    rendezvous) echo base rendezvous/protocol rendezvous ;;
    preflight) echo base preflight ;;
    agent) echo base rendezvous/protocol rendezvous preflight agent ;;
    launcher) echo base rendezvous/protocol rendezvous agent launcher ;;
    ctl) echo base rendezvous/protocol ctl ;;
    worker_runtime) echo base rendezvous/protocol worker_runtime ;;
    cuda) echo base worker_runtime cuda cuda/launch.cuh ;;
    # Where what a kernel may use is defined once more, for CPUs.
    cuda/launch.cuh) echo tests ;;
    # A crowd of agents speaks our own protocol; ranks meet as those of tests do.
    bench) echo base rendezvous/protocol worker_runtime bench tests ;;
    examples) echo base rendezvous/protocol ;;
    man) echo base rendezvous launcher ctl worker_runtime ;;
    esac
}

floor_of()
{
    case $1 in
    rendezvous/protocol/*) echo rendezvous/protocol ;;
    cuda/launch.cuh) echo cuda/launch.cuh ;;
    */*) echo "${1%%/*}" ;;
    *) echo '?' ;;
    esac
}

# Prints "FILE includes WHAT" for each include that points up.
violations()
{
    (cd "$1" && find . -path ./tests -prune -o -path './build*' -prune -o \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print |
        sed 's|^\./||' | xargs grep -H '^#include' /dev/null |
        sed -n 's|^\([^:]*\):#include *["<]\([^">]*\)[">].*|\1 \2|p') |
        while read -r file header; do
            floor=$(floor_of "$file")
            case $header in
            uv.h)
                case $file in
                base/loop/* | rendezvous/protocol/*) [ "$floor" = base ] || echo "$file includes $header" ;;
                base/* | ctl/* | worker_runtime/* | examples/* | cuda/*) echo "$file includes $header" ;;
                esac
                ;;
            base/* | rendezvous/* | preflight/* | agent/* | launcher/* | ctl/* | worker_runtime/* | cuda/* | bench/* | tests/*)
                case " $(allowed "$floor") " in
                *" $(floor_of "$header") "*) ;;
                *) echo "$file includes $header" ;;
                esac
                ;;
            esac
        done
}

[ -d "$top/base" ] || {
    echo "layers.sh: $top is not a tree of dtrun's sources: it has no folder base" >&2
    exit 2
}
planted=
if [ $# -eq 0 ]; then
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' EXIT
    mkdir -p "$planted/base/loop" "$planted/rendezvous/protocol" "$planted/bench" "$planted/ctl" "$planted/cuda"
    echo '#include "rendezvous/store/store.h"' >"$planted/base/a.c"
    echo '#include <uv.h>' >"$planted/base/b.h"
    echo '#include "rendezvous/store/store.h"' >"$planted/rendezvous/protocol/c.c"
    echo '#include "base/err.h"' >"$planted/rendezvous/protocol/fine.c"
    echo '#include "tests/lib/check.h"' >"$planted/rendezvous/d.c"
    echo '#include <uv.h>' >"$planted/base/loop/uvx.c"
    echo '#include "rendezvous/client/client.h"' >"$planted/ctl/e.c"
    echo '#include <uv.h>' >"$planted/ctl/f.c"
    echo '#include "cuda/launch.cuh"' >"$planted/cuda/fine.cu"
    echo '#include "tests/lib/check.h"' >"$planted/cuda/g.cu"
    echo 1..3
    found=$(violations "$planted" | wc -l)
    if [ "$found" -eq 7 ]; then
        tap_ok 'planted violations are noticed'
    else
        violations "$planted" | tap_not_ok "planted violations are noticed ($found of 7)"
    fi
    if said=$(sh "$0" "$planted/none" 2>&1); then
        echo "$said" | tap_not_ok 'a tree that is not there is an error'
    else
        tap_ok 'a tree that is not there is an error'
    fi
else
    echo 1..1
fi

up=$(violations "$top")
if [ -z "$up" ]; then
    tap_ok 'no include points up'
else
    echo "$up" | tap_not_ok 'no include points up'
fi
exit "$failed"
