#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --estimate says of a run and what the run takes, as a row of a table: measure.py DTRUN DTRUN_TRAIN WORLD EMPTY NAME CONFIG WORD...

EMPTY is what a process takes that has as good as no model, in MiB; it is taken off. 0: this run is that process, and the row is that
number. What ranks share counts once (Pss). A rank's own figure is its VmHWM, in which shared pages count whole."""
import os
import re
import subprocess
import sys
import time

MIB = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 1024.0}


def estimate(train, world, words):
    said = subprocess.run([train, "--estimate", *words, "--world", world], stdout=subprocess.PIPE, text=True, check=True).stdout
    row = [re.split(r"\s{2,}", line) for line in said.splitlines() if line.startswith("* ")][0]
    number, unit = row[6].split()
    return float(number) * MIB[unit]


def field(pid, name, key):
    """In MiB; 0 where the process is gone."""
    try:
        with open("/proc/%d/%s" % (pid, name), encoding="utf-8") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(key + ":")) / 1024
    except OSError:
        return 0


def below(pid):
    """It, and all processes that it has started."""
    found = [pid]
    for one in found:
        try:
            for task in os.listdir("/proc/%d/task" % one):
                with open("/proc/%d/task/%s/children" % (one, task), encoding="utf-8") as f:
                    found += [int(child) for child in f.read().split()]
        except OSError:
            pass
    return found


def is_rank(pid, train):
    try:
        return os.path.samefile("/proc/%d/exe" % pid, train)
    except OSError:
        return False


def run(dtrun, train, world, words):
    """(the most that all ranks take together, the most of one)"""
    command = [dtrun, "--nproc-per-node", world, "--no-python", train] if world != "1" else [train]
    job = subprocess.Popen([*command, "--config", *words], stdout=sys.stderr)
    together = one = 0
    while job.poll() is None:
        ranks = [pid for pid in below(job.pid) if is_rank(pid, train)]
        together = max(together, sum(field(pid, "smaps_rollup", "Pss") for pid in ranks))
        one = max([one] + [field(pid, "status", "VmHWM") for pid in ranks])
        time.sleep(0.02)
    if job.returncode:
        sys.exit("it ended with %d" % job.returncode)
    return together, one


def main():
    dtrun, train, world, empty, name, *words = sys.argv[1:]
    together, one = run(dtrun, train, world, words)
    if float(empty) == 0:
        print("%.1f" % one)
        return
    said = estimate(train, world, words) * int(world)
    measured = together - float(empty) * int(world)
    print("| %s | %s | %.0f | %.0f | %+.1f %% | %.0f | %.0f |" % (name, world, said, measured, 100 * (said / measured - 1), together, one))


main()
