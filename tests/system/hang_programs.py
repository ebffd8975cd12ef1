# SPDX-License-Identifier: Apache-2.0
#
# hang_programs.py --dtrun PROGRAM --train PROGRAM --misbehave PROGRAM [NAME...]: jobs without Python that stand still. What
# tells is the kernel, and the progress page of dtrun-train.

import argparse
import collections
import concurrent.futures
import ctypes
import json
import os
import re
import signal

import tap
import training

JOBS = 3  # at a time
PTRACE_ATTACH, PTRACE_DETACH = 16, 17

# START(story): its program. BREAK_IT(story, program): how it comes to stand still; returns what undoes it, or None.
# NAMED: the ranks that the sentence names first; None: nobody is to blame. SAYS: a pattern that the sentence holds.
Row = collections.namedtuple("Row", "start break_it kind named says")


def trains(world, **train):
    """A run with hours to go."""
    def start(s):
        return s.start(s.config(steps=10 ** 6, batch=2 * world, **train), world=world, dtrun=options(s))
    return start


def saves(s):
    return trains(2, save_every=1, save_dir=s.path("ckpt"), keep_last=1)(s)


def misbehaves(world, *actions):
    def start(s):
        return s.start_words([s.tools.dtrun, "--nproc-per-node", str(world), *options(s),
                              "--no-python", s.tools.misbehave, *actions])
    return start


def options(s):
    return "--hang-after", "3", "--shutdown-timeout", "1", "--log-dir", s.path("logs")


def stop(*ranks):
    def break_it(s, program):
        program.expect(r"step 5/")
        for rank in ranks:
            os.kill(s.workers(program)[rank], signal.SIGSTOP)
    return break_it


def stop_in_save(s, program):
    training.await_save(s.path("ckpt"))
    os.kill(s.workers(program)[0], signal.SIGSTOP)


def attach(s, program):
    """As a debugger does. One that dies so is the debugger's to bury."""
    libc = ctypes.CDLL(None, use_errno=True)
    program.expect(r"step 5/")
    pid = s.workers(program)[1]
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) < 0:
        raise tap.Skip("no process can be attached to here: " + os.strerror(ctypes.get_errno()))
    return lambda: libc.ptrace(PTRACE_DETACH, pid, None, None)


def nothing(s, program):
    """It does so by itself."""


INCIDENTS = {
    "one of four that train is stopped": Row(trains(4), stop(2), "stopped", "rank 2", r"is stopped in section \w+"),
    "one of eight that train is stopped": Row(trains(8), stop(5), "stopped", "rank 5", r"is stopped in section \w+"),
    # In one section or in two.
    "two of four that train are stopped": Row(
        trains(4), stop(1, 3), "stopped", "ranks? (1|3|1 and 3)", "ranks 1 and 3 are stopped|(rank [13] is stopped.*){2}"),
    "the one that writes a checkpoint is stopped": Row(saves, stop_in_save, "stopped", "rank 0", "is stopped"),
    "a debugger holds one that trains": Row(trains(2), attach, "stopped", "rank 1", "by a debugger"),
    "one of three programs stops itself": Row(
        misbehaves(3, "rank:1:stop", "hang"), nothing, "stopped", "rank 1", "by a signal"),
    "one of three programs has left": Row(misbehaves(3, "rank:1:exit:0", "hang"), nothing, "left", "rank 1", "has exited with 0"),
    "all programs sleep": Row(misbehaves(2, "hang"), nothing, "outside", None, "ranks 0 and 1"),
}


def check_told(program, row):
    sentence = program.expect(r"warn: (.* has stood still for [^:]+: .*)").group(1)
    evidence = program.expect(r"what each worker does is in (\S+)").group(1)
    with open(evidence, encoding="utf-8") as f:
        verdict = json.load(f)
    tap.check_equal(verdict["class"], row.kind, "class of: " + sentence)
    tap.check_equal(verdict["sentence"], sentence, "sentence")
    if row.named:
        tap.check_equal(bool(re.search(": %s " % row.named, sentence)), True, "%s come first in: %s" % (row.named, sentence))
    else:
        tap.check_equal(verdict["guilty"], False, "somebody is guilty: " + sentence)
    tap.check_equal(bool(re.search(row.says, sentence)), True, "%r in %s" % (row.says, sentence))


def incident(tools, row):
    s = training.Story(tools)
    try:
        program = row.start(s)
        undo = row.break_it(s, program)
        try:
            check_told(program, row)
        finally:
            if undo:
                undo()
        program.kill(signal.SIGTERM)
        program.end(60)
    finally:
        s.finish()


def main():
    parser = argparse.ArgumentParser()
    for name in ("--dtrun", "--train", "--misbehave"):
        parser.add_argument(name, required=True, metavar="PROGRAM")
    parser.add_argument("only", nargs="*")
    tools = parser.parse_args()
    tap.start()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        cases = [(name, pool.submit(incident, tools, row)) for name, row in INCIDENTS.items()
                 if not tools.only or name in tools.only]
        for name, future in cases:
            tap.case(name, future.result)
    tap.done()


if __name__ == "__main__":
    main()
