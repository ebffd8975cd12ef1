#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of bench/parallel.sh: table.py FOLDER, with a file of JSON lines for each measurement, and in it
coll, rows of bench/coll/coll_bench, and suggested, what dtrun-train --suggest printed."""
import json
import os
import sys

LAYERS, WIDTH, POSITIONS, BATCH = 8, 512, 512, 4
STAGES, MICROS = 2, 4
STREAM = BATCH * POSITIONS * WIDTH * 4
TOKENS = BATCH * POSITIONS


def lines(name):
    path = os.path.join(sys.argv[1], name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


def best(name):
    return min((json.loads(line) for line in lines(name)), key=lambda row: row["ms"], default=None)


def say_sums(row):
    """What a rank of two sums with the other, beside theory, and how long that takes, beside the all-reduce alone."""
    sums = 4 * LAYERS + 2
    print("a rank sums %.1f MiB a step; 4 sums in each of %d layers and 2 for the words, of %.0f MiB each, are %.1f MiB: %.3fx" % (
        row["team_bytes"] / 2**20, LAYERS, STREAM / 2**20, sums * STREAM / 2**20, row["team_bytes"] / sums / STREAM))
    alone = [float(us) for size, us in (line.split()[:2] for line in lines("coll")) if size == str(STREAM)]
    if alone:
        print("sums, and waiting for the other rank: %.1f ms a step; %d all-reduces of that size alone: %.1f ms" % (
            row["communication_ms"], sums, sums * min(alone) / 1e3))


def predicted():
    """Times of --suggest, by the ranks that share tensors, layers and samples."""
    rows = [line.replace("*", " ").split() for line in lines("suggested")]
    return {tuple(r[:3]): float(r[-2].rstrip("x")) for r in rows if r[-1:] == ["yes"]}


print("| what | dtrun-train ms/step | tokens/s | MiB a rank | PyTorch ms/step | MiB a rank | faster | memory |")
print("|---|---|---|---|---|---|---|---|")
for name, what in (("single", "one rank"), ("data", "two ranks, 2 samples each / DDP"),
                   ("tensor", "two ranks that share blocks / parallelize_module"),
                   ("pipeline", "two stages, 4 micro-batches / ScheduleGPipe"), ("1f1b", "the same by 1F1B"),
                   ("interleaved", "the same interleaved, 2 chunks each"), ("halves", "the same by ZB-H1"),
                   ("sequence", "two ranks that share blocks, and the rows between"),
                   ("keys", "two ranks that share samples"), ("heads", "the same by heads"),
                   ("ring", "the same round a ring")):
    a, b = best("dtrun-" + name), best(name)
    left = "| %s | %.0f | %.0f | %.0f " % (what, a["ms"], TOKENS * 1e3 / a["ms"], a["rss_mib"])
    if b:
        left += "| %.0f | %.0f | %.2fx | %.2fx |" % (b["ms"], b["rss_mib"], b["ms"] / a["ms"], a["rss_mib"] / b["rss_mib"])
    else:
        left += "| - | - | - | - |"
    print(left)
say_sums(best("dtrun-tensor"))
data, times = best("dtrun-data")["ms"], predicted()
for name, what, cell in (("tensor", "tensors", ("2", "1", "1")), ("1f1b", "layers", ("1", "2", "1"))):
    print("%s beside samples: a step takes %.2f times as long, --suggest predicts %.2f" % (
        what, best("dtrun-" + name)["ms"] / data, times[cell] / times["1", "1", "1"]))
# Where a forward and each half of a backward take as long as the others, and sending takes nothing.
work, idle = 3 * MICROS, STAGES - 1
print("by ZB-H1 beside 1F1B: a step takes %.2f times as long, theory says %.2f" % (
    best("dtrun-halves")["ms"] / best("dtrun-1f1b")["ms"], (work + idle) / (work + 3 * idle)))
