#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# layers.sh [TOP]: no include points up. Speaks TAP. Without TOP it first proves on a planted tree that it would notice.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/lib/tap.sh"
top=${1:-$here}

# From the ground up, each floor with those that it stands on. A floor includes from itself, from these and from all that
# they stand on, so no header brings in what its reader may not have: libuv, above all, stays out of what a worker or
# dtrun-ctl links. A file stands on the floor with the longest name that its path begins with; in a folder that is missing
# here it may include nothing of ours.
floors='
base:
base/loop: base uv.h
base/httpd: base/loop
base/transfer: base
base/upload: base/transfer
preflight: base
rendezvous/protocol: base
rendezvous/journal: base uv.h
rendezvous/events: base
rendezvous/hang: rendezvous/protocol
rendezvous/lag: rendezvous/protocol
rendezvous/rdzv: rendezvous/events rendezvous/hang rendezvous/lag
rendezvous/store: rendezvous/protocol base/loop
rendezvous/client: rendezvous/protocol base/loop
rendezvous/runs: rendezvous/events rendezvous/journal rendezvous/rdzv rendezvous/store
rendezvous/web: rendezvous/runs rendezvous/alerts base/httpd
rendezvous/alerts: rendezvous/events rendezvous/journal rendezvous/protocol base/loop base/transfer
rendezvous/daemon: rendezvous/events rendezvous/web rendezvous/alerts
agent: rendezvous/client rendezvous/web base/upload preflight
launcher: agent
ctl/report: base
ctl: ctl/report preflight rendezvous/protocol
ctl/top: ctl
ctl/main.c: ctl/top
worker_runtime/lfs_pointer.h: base
worker_runtime/no_folder.h: base
worker_runtime/include: base
worker_runtime/optim: base
worker_runtime/data: worker_runtime/include worker_runtime/lfs_pointer.h worker_runtime/no_folder.h
worker_runtime/telemetry: worker_runtime/include rendezvous/protocol
worker_runtime/telemetry/nccl_profiler: worker_runtime/telemetry
worker_runtime/ops: worker_runtime/include
worker_runtime/coll: worker_runtime/include
worker_runtime/coll/wire: worker_runtime/coll
worker_runtime/coll/host: worker_runtime/coll
worker_runtime/coll/hosts: worker_runtime/coll/host worker_runtime/coll/wire
worker_runtime/device: worker_runtime/coll/host worker_runtime/ops
worker_runtime: worker_runtime/device worker_runtime/telemetry rendezvous/protocol base/upload
worker_runtime/zero: worker_runtime
worker_runtime/mesh: worker_runtime/include
worker_runtime/model: worker_runtime/zero worker_runtime/mesh
worker_runtime/pipeline: worker_runtime/model
worker_runtime/ckpt: worker_runtime/mesh worker_runtime/pipeline worker_runtime/optim worker_runtime/lfs_pointer.h worker_runtime/no_folder.h
worker_runtime/config: worker_runtime/ckpt
worker_runtime/vault: worker_runtime/zero worker_runtime/coll/wire
worker_runtime/train: worker_runtime/vault worker_runtime/ckpt worker_runtime/config worker_runtime/data worker_runtime/telemetry
worker_runtime/saved: worker_runtime/ckpt worker_runtime/config worker_runtime/data
worker_runtime/generate: worker_runtime/saved
worker_runtime/llamafactory: worker_runtime/config worker_runtime/data
worker_runtime/export: worker_runtime/saved
worker_runtime/program: worker_runtime/train worker_runtime/generate worker_runtime/export worker_runtime/llamafactory
cuda: worker_runtime/device
examples: worker_runtime/include rendezvous/protocol
man: launcher ctl rendezvous/daemon worker_runtime/train
# A crowd of agents speaks our own protocol; ranks meet as those of tests do.
bench: base/loop worker_runtime worker_runtime/telemetry/nccl_profiler tests
'

# Prints "FILE includes WHAT" for each include that points up.
violations()
{
    (cd "$1" && find . -path ./tests -prune -o -path './build*' -prune -o \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print |
        sed 's|^\./||' | xargs grep -H '^#include' /dev/null |
        sed -n 's|^\([^:]*\):#include *["<]\([^">]*\)[">].*|\1 \2|p') |
        floors=$floors awk '
            # LOWER, and all that it stands on, is below FLOOR.
            function stand(floor, lower,    low, n) {
                known[lower] = 1
                if (!(lower in ground))
                    ground[lower] = lower
                split(ground[lower], low, " ")
                for (n in low)
                    if (!((floor, low[n]) in below)) {
                        below[floor, low[n]] = 1
                        ground[floor] = ground[floor] " " low[n]
                    }
            }
            function floor_of(file) {
                while (!(file in known) && sub(/\/[^\/]*$/, "", file))
                    ;
                return file
            }
            BEGIN {
                rows = split(ENVIRON["floors"], row, "\n")
                for (i = 1; i <= rows; i++) {
                    words = split(row[i], word, /:? +|:$/)
                    for (k = 1; row[i] !~ /^#/ && k <= words; k++)
                        if (word[k] != "")
                            stand(word[1], word[k])
                }
            }
            {
                sub(/^dtrun\//, "worker_runtime/include/dtrun/", $2)
                floor = floor_of($2)
                if ((floor in known) && !((floor_of($1), floor) in below))
                    print $1 " includes " $2
            }'
}

[ -d "$top/base" ] || {
    echo "layers.sh: $top is not a tree of dtrun's sources: it has no folder base" >&2
    exit 2
}
planted=
if [ $# -eq 0 ]; then
    planted=$(mktemp -d)
    trap 'rm -rf "$planted"' EXIT
    mkdir -p "$planted/base/loop" "$planted/rendezvous/protocol" "$planted/bench" "$planted/ctl" "$planted/cuda" \
        "$planted/worker_runtime/ops"
    echo '#include "rendezvous/store/store.h"' >"$planted/base/a.c"
    echo '#include <uv.h>' >"$planted/base/b.h"
    echo '#include "rendezvous/store/store.h"' >"$planted/rendezvous/protocol/c.c"
    echo '#include "base/err.h"' >"$planted/rendezvous/protocol/fine.c"
    echo '#include "tests/lib/check.h"' >"$planted/rendezvous/d.c"
    echo '#include <uv.h>' >"$planted/base/loop/uvx.c"
    echo '#include "rendezvous/client/client.h"' >"$planted/ctl/e.c"
    echo '#include <uv.h>' >"$planted/ctl/f.c"
    echo '#include "cuda/kernels/launch.cuh"' >"$planted/cuda/fine.cu"
    echo '#include "tests/lib/check.h"' >"$planted/cuda/g.cu"
    echo '#include "base/loop/wire.h"' >"$planted/worker_runtime/h.c"
    echo '#include "worker_runtime/device/device.h"' >"$planted/worker_runtime/ops/i.h"
    echo '#include "worker_runtime/ops/ops.h"' >"$planted/worker_runtime/fine.c"
    echo '#include <dtrun/zero.h>' >"$planted/base/k.c"
    echo 1..3
    found=$(violations "$planted" | wc -l)
    if [ "$found" -eq 10 ]; then
        tap_ok 'planted violations are noticed'
    else
        violations "$planted" | tap_not_ok "planted violations are noticed ($found of 10)"
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
