#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of bench/finetune.sh: table.py FOLDER, with a file of JSON lines for each measurement."""
import json
import os
import sys

TOKENS = 2 * 512


def best(name):
    path = os.path.join(sys.argv[1], name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return min((json.loads(line) for line in f), key=lambda row: row["ms"], default=None)


print("| what | dtrun-train ms/step | tokens/s | MiB | PyTorch ms/step | MiB | faster | memory |")
print("|---|---|---|---|---|---|---|---|")
for name, what in (("lora", "adapters of rank 16 for all layers"), ("full", "all weights")):
    a, b = best("dtrun-" + name), best(name)
    left = "| %s | %.0f | %.0f | %.0f " % (what, a["ms"], TOKENS * 1e3 / a["ms"], a["rss_mib"])
    if b:
        left += "| %.0f | %.0f | %.2fx | %.2fx |" % (b["ms"], b["rss_mib"], b["ms"] / a["ms"], a["rss_mib"] / b["rss_mib"])
    else:
        left += "| - | - | - | - |"
    print(left)
