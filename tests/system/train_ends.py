# SPDX-License-Identifier: Apache-2.0
#
# How a run ends before its end: told once, told twice, told in one rank only, told while it saves or before it begins, and
# by a rank that stands still.

import os
import signal

import tap
import training


def resumes(s, c, whole):
    """The next start of the run goes on to the losses of WHOLE."""
    s.run(c, world=2).expect(r"resumed from .*: step [1-9]")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


@training.story
def interrupted(s):
    """SIGINT saves the step at hand and ends the run by that signal, with dtrun and without"""
    for world in (0, 2):
        c = s.config("c%d.json" % world, steps=100000, save_dir=s.path("ckpt%d" % world))
        program = s.start(c, world=world)
        program.expect(r"step 5/")
        program.kill(signal.SIGINT)
        step = program.expect(r"told to end: step (\d+), loss [\d.]+, saved in ").group(1)
        status = program.end()
        tap.check_equal(status, -signal.SIGINT if world == 0 else 1, "exit status, world %d" % world)
        tap.check_equal(s.checkpoints(s.path("ckpt%d" % world)), ["step-%08d" % int(step)], "checkpoints")


def caught(pid):
    """Whether the process would hear SIGTERM."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as f:
        mask = [line for line in f if line.startswith("SigCgt:")][0]
    return bool(int(mask.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@training.story
def told_twice(s):
    """the second SIGTERM ends it at once, in the middle of a step, and nothing is saved"""
    c = s.config(batch=1 << 20, accumulation=1 << 16, steps=2, save_dir=s.path("ckpt"))
    program = s.start(c, world=0)
    program.expect(r"^batch ")
    program.kill(signal.SIGTERM)
    training.wait_for(lambda: not caught(program.popen.pid), "SIGTERM to be heard")
    program.kill(signal.SIGTERM)
    tap.check_equal(program.end(), -signal.SIGTERM, "exit status")
    tap.check_equal(s.checkpoints(s.path("ckpt")), [], "checkpoints")


@training.story
def told_in_one_rank(s):
    """SIGTERM to one rank alone: all save the same step and end; the next world goes on"""
    whole = s.config("whole.json", stage=2, steps=training.LONG)
    s.run(whole, world=2)
    for rank in (0, 1):
        c = s.config("c%d.json" % rank, stage=2, steps=training.LONG, save_dir=s.path("ckpt%d" % rank))
        program = s.start(c, world=2)
        program.expect(r"step 9/")
        os.kill(s.workers(program)[rank], signal.SIGTERM)
        program.expect(r"told to end: step \d+, loss [\d.]+, saved in ")
        tap.check_equal(program.end(), 1, "exit status of a job with a rank that died by a signal")
        resumes(s, c, whole)


@training.story
def told_while_saving(s):
    """SIGTERM in a save: that save or the last step's is whole, and the run goes on from it"""
    whole = s.config("whole.json", stage=1, steps=training.LONG)
    s.run(whole, world=2)
    for number in range(3):
        c = s.config("c%d.json" % number, stage=1, steps=training.LONG, save_every=7 + number, save_dir=s.path("ckpt%d" % number))
        program = s.start(c, world=2)
        training.await_save(s.path("ckpt%d" % number))
        program.kill(signal.SIGTERM)
        program.expect(r"told to end: step \d+, loss [\d.]+, saved in ")
        program.end()
        tap.check_equal([n for n in os.listdir(s.path("ckpt%d" % number)) if n.startswith(".tmp")], [], "what is left of saves")
        resumes(s, c, whole)


@training.story
def told_before_all_came(s):
    """SIGTERM to a rank that waits for others ends it at once"""
    c = s.config(steps=4, save_dir=s.path("ckpt"))
    os.mkfifo(s.path("never"))
    program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--no-python", "sh", "-c",
                             '[ "$RANK" = 0 ] || exec cat "$0"; exec "$@"', s.path("never"), s.tools.train, "--config", c])
    training.wait_for(lambda: any(has_socket(pid) for pid in s.workers(program).values()), "rank 0 at the store")
    program.kill(signal.SIGTERM)
    tap.check_equal(program.end(patience=25) != 0, True, "dtrun ends before its grace of 30 s is over, and not well")


def has_socket(pid):
    """Whether the process has one open."""
    try:
        return any(os.readlink("/proc/%d/fd/%s" % (pid, n)).startswith("socket:") for n in os.listdir("/proc/%d/fd" % pid))
    except OSError:
        return False


@training.story
def stands_still(s):
    """a rank that stands still longer than collective_timeout: the others end and name it"""
    c = s.config(steps=100000, save_every=5, save_dir=s.path("ckpt"), collective_timeout=5)
    program = s.start(c, world=2)
    program.expect(r"step 12/")
    stopped = s.workers(program)[1]
    os.kill(stopped, signal.SIGSTOP)
    program.expect(r"dtrun-train: rank 0: step \d+: .*rank 1")
    tap.check_equal(program.end(), 1, "exit status")
    tap.check_equal(os.path.exists("/proc/%d" % stopped), False, "the rank that stood still is there still")


training.main()
