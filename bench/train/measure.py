#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a training of dtrun-train, and prints one line of JSON about it: measure.py METRICS COMMAND..."""
import json
import resource
import statistics
import subprocess
import sys

done = subprocess.run(sys.argv[2:], stdout=sys.stderr)
if done.returncode:
    sys.exit("it ended with %d" % done.returncode)
with open(sys.argv[1], encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
ms = [row["ms"] for row in rows if "ms" in row][3:]
print(
    json.dumps(
        {
            "ms": statistics.median(ms),
            "least_ms": min(ms),
            "communication_ms": statistics.median([row["communication_ms"] for row in rows if "ms" in row][3:]),
            # What ranks that share blocks sum.
            "team_bytes": rows[-1].get("team_bytes", 0),
            # The largest process below: a rank.
            "rss_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
            # That each checkpoint held training up: the copy, and what the step behind it took longer.
            "vault_ms": statistics.median([row["vault_ms"] for row in rows if "ms" in row][3:]),
            "stalls": [row["checkpoint_ms"] + row["ms"] - statistics.median(ms) for row in rows if row.get("checkpoint_ms")],
        }
    )
)
