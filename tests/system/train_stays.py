# SPDX-License-Identifier: Apache-2.0
#
# Ranks that outlive another one's death: they leave their world, wait, and go on in the next with the same process, and the
# losses are those of a run without the failure. And all the ways out of that: those who do not leave, or are told to end.

import os
import signal
import time

import tap
import training


def restarts(n):
    return ("--max-restarts", str(n))


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def gone(pids):
    training.wait_for(lambda: all(state_of(pid) == "gone" for pid in pids), "the end of %r" % (pids,))


@training.story
def survivors_keep_their_processes(s):
    """kill -9 of one rank after the other: only that one is started again, and the losses are the same to the bit"""
    steps = training.LONG
    whole = s.config("whole.json", stage=2, steps=steps)
    s.run(whole, world=3)
    c = s.config(stage=2, steps=steps, save_every=5, save_dir=s.path("ckpt"))
    program = s.start(c, world=3, dtrun=restarts(10))
    program.expect(r"step 10/")
    before = s.workers(program)
    for turn, victim in enumerate((1, 0, 2, 2)):
        kill(before[victim])
        program.expect(r"^(resumed from .*: step|back at step) \d+")
        program.expect(r"step %d/" % (20 + 10 * turn))
        now = s.workers(program)
        tap.check_equal([r for r in now if now[r] != before[r]], [victim], "ranks with a new process")
        before = now
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


if __name__ == "__main__":
    training.main()
