# SPDX-License-Identifier: Apache-2.0
#
# Ranks that outlive another one's death: they leave their world, wait, and go on in the next with the same process, and the
# losses are those of a run without the failure. And all the ways out of that: those who do not leave, or are told to end.

import glob
import json
import os
import signal

import tap
import training


def restarts(n):
    return ("--max-restarts", str(n))


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def gone(pids):
    training.wait_for(lambda: all(training.state_of(pid) == "gone" for pid in pids), "the end of %r" % (pids,))


@training.story
def survivors_keep_their_processes(s):
    """kill -9 of one rank after the other: only that one is started again, and the losses are the same to the bit"""
    steps = 2 * training.LONG
    whole = s.config("whole.json", stage=2, steps=steps)
    s.run(whole, world=3)
    c = s.config(stage=2, steps=steps, save_every=5, save_dir=s.path("ckpt"))
    program = s.start(c, world=3, dtrun=restarts(10))
    program.expect(r"step 10/")
    before = s.workers(program)
    for victim in (1, 0, 2, 2):
        kill(before[victim])
        program.expect(r"^(resumed from .*: step|back at step) \d+")
        program.expect(r"step \d+/")
        now = s.workers(program)
        tap.check_equal([r for r in now if now[r] != before[r]], [victim], "ranks with a new process")
        before = now
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


def count_kept(before, after):
    return len(set(before) & set(after))


@training.story
def nodes_keep_their_workers(s):
    """kill -9 of a rank on one node: on all nodes nobody but that rank has a new process"""
    c = s.config(stage=2, steps=100000, save_every=10, save_dir=s.path("ckpt"))
    nodes = training.Nodes(s, c, "3", 3, *restarts(5))
    first = nodes.speaker()
    first.expect(r"step 10/")
    for number in (2, 1):
        before = nodes.all_pids()
        kill(before[number][0])
        first.expect(r"^(resumed from .*: step|back at step) \d+")
        first.expect(r"step \d+/")
        after = nodes.all_pids()
        tap.check_equal([count_kept(before[i], after[i]) for i in range(3)], [1 if i == number else 2 for i in range(3)], "processes kept")
        tap.check_equal([len(after[i]) for i in range(3)], [2, 2, 2], "processes")
    for agent in nodes.agents:
        agent.kill(signal.SIGTERM)
    for agent in nodes.agents:
        tap.check_equal(agent.end(), 1, "exit status; it said\n%s\n" % "\n".join(agent.lines))


@training.story
def a_world_that_shrinks_and_grows(s):
    """kill -9 of an agent: the others stay, of other ranks in a smaller world; one that comes back starts all again"""
    c = s.config(stage=2, steps=100000, save_every=10, save_dir=s.path("ckpt"))
    nodes = training.Nodes(s, c, "2:3", 3)
    first = nodes.speaker()
    first.expect(r"step 10/")
    lost = [a for a in nodes.agents[1:] if a is not first][0]
    kept = [a for a in nodes.agents if a is not lost]
    before, dead = {a: nodes.pids(a) for a in kept}, nodes.pids(lost)
    lost.kill(signal.SIGKILL)
    first.expect(r"4 ranks on 2 hosts")
    first.expect(r"step \d+/")
    tap.check_equal({a: nodes.pids(a) for a in kept}, before, "processes of the nodes that are left")
    gone(dead)
    nodes.start(7)
    training.wait_for(lambda: any(a.says(r"node7 joins") or a.says("3 nodes instead of 2") for a in kept), "the third node")
    first.expect(r"6 ranks on 3 hosts")
    first.expect(r"step \d+/")
    tap.check_equal([count_kept(before[a], nodes.pids(a)) for a in kept], [0, 0], "processes kept where all stopped together")


def full_fifo(path):
    """A pipe by name, in which a writer gets stuck until the descriptor is read from."""
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        return fd


@training.story
def the_reason_of_a_rank_that_does_not_end(s):
    """one rank has a reason to tell, and gets stuck as it does: one that waits for the round's end fails with that reason"""
    c = s.config(metrics="/dev/null/metrics.jsonl")
    logs, fifo = s.path("logs"), s.path("fifo")
    fd = full_fifo(fifo)
    program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", *restarts(1), "--shutdown-timeout", "100ms", "--log-dir", logs,
                             "--no-python", "/bin/sh", "-c", 'test $RANK$DTRUN_ROUND = 00 && exec 2>"$0"; exec "$@"', fifo,
                             s.tools.train, "--config", c])
    status = program.end()
    said = "it said\n%s\n" % "\n".join(program.lines)
    tap.check_equal(status, 1, "exit status; " + said)
    os.close(fd)
    left, = glob.glob(os.path.join(logs, "*", "attempt_0", "1", "error.json"))
    with open(left, encoding="utf-8") as f:
        tap.check_equal(json.load(f)["message"], "rank 1: rank 0: cannot open /dev/null/metrics.jsonl: Not a directory", "reason; " + said)
    tap.check_equal(program.says("its round was not ended"), False, "another one; " + said)


if __name__ == "__main__":
    training.main()
