#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a training on one GPU and prints one line of JSON about it: measure.py METRICS COMMAND...

METRICS is dtrun-train's file of JSON lines, or "-" where the command prints a line of JSON itself. The peak of the GPU's memory is
what nvidia-smi shows while the command runs, above what it showed before: the same for all, libraries and caches included."""
import json
import os
import shutil
import statistics
import subprocess
import sys


def smi(*more):
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return ["nvidia-smi", "--id=" + first, "--query-gpu=memory.used", "--format=csv,noheader,nounits", *more]


def memory_before():
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(smi(), stdout=subprocess.PIPE, text=True)
    # A GPU that is cut into parts has "[N/A]" there.
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def steps_of(path, skipped):
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    ms = [row["ms"] for row in rows if "ms" in row][skipped:]
    return {"ms": statistics.median(ms), "least_ms": min(ms)}


def main():
    metrics, command = sys.argv[1], sys.argv[2:]
    before = memory_before()
    watch = None
    if before is not None:
        watch = subprocess.Popen(smi("--loop-ms=100"), stdout=subprocess.PIPE, text=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    peak = None
    if watch:
        watch.terminate()
        peak = max((int(word) for word in watch.communicate()[0].split() if word.isdigit()), default=before) - before
    if done.returncode:
        sys.exit("%s ended with %d" % (command[0], done.returncode))
    if metrics == "-":
        row = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    else:
        row = steps_of(metrics, 3)
    print(json.dumps(dict(row, peak_mib=peak)))


if __name__ == "__main__":
    main()
