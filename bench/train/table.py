#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of bench/train.sh: table.py FOLDER, with a file of JSON lines for each measurement."""
import json
import os
import statistics
import sys


def read(name):
    try:
        with open(os.path.join(sys.argv[1], name), encoding="utf-8") as f:
            return [json.loads(line) for line in f]
    except FileNotFoundError:
        return []


def best(name):
    rows = read(name)
    return min(rows, key=lambda row: row["ms"]) if rows else None


# Ours, its peer, what they do, ranks.
PAIRS = [
    ("dtrun-single", "single", "one process, 2 threads", 1),
    ("dtrun-stage0", "ddp", "stage 0 / DDP", 2),
    ("dtrun-stage1", "ddp", "stage 1 / DDP", 2),
    ("dtrun-stage2", "ddp", "stage 2 / DDP", 2),
    ("dtrun-stage1", "zero1", "stage 1 / ZeroRedundancyOptimizer", 2),
    ("dtrun-stage3", "fsdp", "stage 3 / FSDP", 2),
]
print("| what | dtrun-train ms/step | tokens/s | MiB a rank | PyTorch ms/step | MiB a rank | faster | memory |")
print("|---|---|---|---|---|---|---|---|")
for ours, theirs, what, ranks in PAIRS:
    a, b = best(ours), best(theirs)
    left = "| %s | %.0f | %.0f | %.0f " % (what, a["ms"], ranks * 1024e3 / a["ms"], a["rss_mib"])
    if b:
        left += "| %.0f | %.0f | %.2fx | %.2fx |" % (
            b["ms"], b["rss_mib"], b["ms"] / a["ms"], a["rss_mib"] / b["rss_mib"])
    else:
        left += "| - | - | - | - |"
    print(left)
for row in read("dtrun-vault"):
    print("a copy into the vault at each step: %.1f ms beside the median step of %.0f ms, %.1f %% of one" % (
        row["vault_ms"], row["ms"], 100 * row["vault_ms"] / row["ms"]))
for row in read("dtrun-saves"):
    print("checkpoint every 50 steps: %.1f ms beyond the median step of %.0f ms, %.1f %% of one" % (
        statistics.median(row["stalls"]), row["ms"], 100 * statistics.median(row["stalls"]) / row["ms"]))
