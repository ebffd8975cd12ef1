#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What meson's testlog.json says, for .ci/run. Of tests that were run again a second LOG has the last word.
#
#   testlog.py failed LOG...        the names of those that failed, a line each
#   testlog.py counts LOG...        how many passed, failed and were skipped
#   testlog.py tell WHERE LOG...    those that failed, and those that did at first, each with the checks that failed in it

import json
import os
import sys

BAD = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")


def read(path):
    """{name: test}; of a run that never began, nothing."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", errors="replace") as f:
        return {test["name"].split(" / ")[-1]: test for test in map(json.loads, f)}


def bad_checks(test):
    """The end of what it said before each check that failed, or of all that it said."""
    said = (test.get("stdout") or "").splitlines()
    where = [n for n, line in enumerate(said) if line.startswith("not ok")] or [len(said)]
    return ["    " + line[:200] for n in where[:3] for line in said[max(0, n - 6):n + 1]]


def tell(where, first, last):
    for name, test in first.items():
        if test["result"] not in BAD:
            continue
        if last[name]["result"] in BAD:
            print("failed: %s: %s: %s after %d s" % (where, name, test["result"], test["duration"]))
        else:
            print("unsteady: %s: %s passed when run again alone" % (where, name))
        print(*bad_checks(test), sep="\n")


def main():
    what, *words = sys.argv[1:]
    where = words.pop(0) if what == "tell" else None
    logs = [read(path) for path in words]
    last = {name: test for log in logs for name, test in log.items()}
    results = [test["result"] for test in last.values()]
    if what == "failed":
        print(*(name for name, test in last.items() if test["result"] in BAD), sep="\n")
    elif what == "counts":
        print(results.count("OK"), sum(r in BAD for r in results), results.count("SKIP"))
    else:
        tell(where, logs[0], last)


main()
