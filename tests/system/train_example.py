# SPDX-License-Identifier: Apache-2.0
#
# examples/train.c, a model that is not ours: by itself, by two ranks, and by two of which one is killed.

import argparse
import os
import re
import shutil
import signal
import subprocess
import tempfile

import netns
import tap

STEPS = 3000
LINE = re.compile(r"step (\d+): loss ([\d.]+)")
# Who is which rank, said before it becomes the program. Of two $ dtrun makes one.
NAMED = ["sh", "-c", 'echo "rank $RANK is process $$$$"; exec "$0" "$@"']


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--dtrun", required=True)
    p.add_argument("--example", required=True)
    return p.parse_args()


class Runs:
    """The programs of this test, in a folder that goes with them."""

    def __init__(self, tools):
        self.tools = tools
        self.dir = tempfile.mkdtemp(prefix="dtrun-example-")
        self.programs = []

    def start(self, folder, world=0, steps=STEPS):
        words = [self.tools.example, os.path.join(self.dir, folder), str(steps)]
        if world:
            words = [self.tools.dtrun, "--nproc-per-node", str(world), "--max-restarts", "1", "--no-python", *NAMED, *words]
        popen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 preexec_fn=tap.die_with_parent, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.programs.append(netns.Program("train", popen))
        return self.programs[-1]

    def end(self, program):
        """Its losses by step; of a step that was made twice, the last."""
        tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        return {int(m[1]): float(m[2]) for m in map(LINE.search, program.lines) if m}

    def finish(self):
        for program in self.programs:
            program.kill(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)


def close(got, wanted, what):
    tap.check_equal(sorted(got), sorted(wanted), "steps: " + what)
    worst = max(abs(got[step] - wanted[step]) for step in wanted)
    if worst > 1e-5:
        raise AssertionError("%s: differs by %.3g\n%r\n%r" % (what, worst, got, wanted))


def main():
    runs = Runs(arguments())
    tap.start()
    whole = {}

    def alone():
        whole.update(runs.end(runs.start("alone")))
        tap.check_equal(sorted(whole), [1] + list(range(100, STEPS + 1, 100)), "steps")
        if not whole[STEPS] < whole[1] / 100:
            raise AssertionError("it learned nothing: %r" % whole)

    def together():
        close(runs.end(runs.start("two", world=2)), whole, "two ranks against one")

    def killed():
        program = runs.start("killed", world=2)
        victim = int(program.expect(r"rank 1 is process (\d+)")[1])
        # A save waits for the one before it, so two checkpoints are whole by now.
        program.expect(r"step 300: loss")
        os.kill(victim, signal.SIGKILL)
        back = int(program.expect(r"going on behind step (\d+)")[1])
        if back < 200:
            raise AssertionError("it went back to step %d" % back)
        close(runs.end(program), whole, "two ranks, one killed, against one")

    def elsewhere():
        runs.end(runs.start("moved", world=2, steps=1000))
        program = runs.start("moved")
        losses = runs.end(program)
        tap.check_equal(program.says(r"going on behind step 1000$"), True, "it went on")
        close(losses, {s: whole[s] for s in range(1100, STEPS + 1, 100)}, "two ranks, then one, against one")

    try:
        tap.case("the example learns", alone)
        tap.case("two ranks have the losses of one", together)
        tap.case("a rank killed with -9 costs the steps since the last checkpoint, and no loss", killed)
        tap.case("one rank goes on from what two saved", elsewhere)
    finally:
        runs.finish()
    tap.done()


main()
