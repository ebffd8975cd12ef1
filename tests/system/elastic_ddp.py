# SPDX-License-Identifier: Apache-2.0
#
# elastic_ddp.py --dtrun COMMAND ...: real PyTorch trains on several hosts, data parallel over gloo,
# while nodes, workers and the rendezvous die in the middle of a step.

import os
import sys

import elastic
import tap
from elastic import story

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

HELD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "held_ddp.py")
STEP = 5  # of 20


def trainer(s, number, *options, at, nnodes, name="model", hold=STEP, script=()):
    command = ("--no-python", sys.executable, HELD, "--checkpoint", s.path(name + ".pt")) + script
    return s.agent(number, *options, at=at, nnodes=nnodes, run=name, env={"HOLD": str(hold)},
                   command=command)


def holding(s, count, *options, at, nnodes):
    """That many agents whose workers are in the middle of a step."""
    agents = [trainer(s, number, *options, at=at, nnodes=nnodes) for number in range(count)]
    agents[-1].reads("rank %d holds at step %d" % (count - 1, STEP))
    return agents


def begins(agent, attempt, step, ranks):
    agent.reads("attempt %d, step +%d of 20 on %d ranks" % (attempt, step, ranks))


def last_loss(agent, ranks):
    return agent.reads("step 19 of 20 on %d ranks: loss ([0-9.]+)" % ranks).group(1)


def all_end(*agents):
    for agent in agents:
        agent.ends(0)


@story(hosts=4)
def killed(s):
    """kill -9 of an agent in the middle of a step: those who are left train on from there"""
    s.serve(3)
    agents = holding(s, 3, at=3, nnodes="2:3")
    begins(agents[0], 0, 0, 3)
    agents[2].kill()
    for agent in agents[:2]:
        agent.reads("round 1: .*node2 went offline .*2 nodes instead of 3")
    begins(agents[0], 0, STEP, 2)
    last_loss(agents[0], 2)
    all_end(*agents[:2])


@story(hosts=4)
def first_killed(s):
    """kill -9 of the agent of rank 0: a spare takes over, and the loss is that of a quiet run"""
    s.serve(3)
    quiet = [trainer(s, number, at=3, nnodes="2", name="quiet", hold=-1) for number in range(2)]
    loss = last_loss(quiet[0], 2)
    all_end(*quiet)
    agents = holding(s, 2, "--spares", "1", at=3, nnodes="2")
    spare = trainer(s, 2, "--spares", "1", at=3, nnodes="2")
    spare.reads("stands by as a spare")
    agents[0].kill()
    for agent in (agents[1], spare):
        agent.reads("round 1: .*node0 went offline .*node2 takes seat 0 of node0")
    begins(spare, 0, STEP, 2)
    tap.check_equal(last_loss(spare, 2), loss, "the last loss")
    all_end(agents[1], spare)


@story(hosts=3)
def server_killed(s):
    """kill -9 of the rendezvous in the middle of a step: training does not notice"""
    options = "--state-dir", s.path("state")
    server = s.serve(2, *options)
    agents = holding(s, 2, at=2, nnodes="2")
    begins(agents[0], 0, 0, 2)
    server.kill()
    for agent in agents:
        agent.reads("connecting again, workers run on")
    s.serve(2, *options)
    for agent in agents:
        agent.reads("is there again")
    agents[-1].tell("go on")
    last_loss(agents[0], 2)
    all_end(*agents)
    for agent in agents:
        agent.unmoved()


@story(hosts=3)
def worker_raises(s):
    """a worker raises: both nodes start again from the checkpoint, and it is one restart"""
    s.serve(2)
    agents = [trainer(s, number, "--max-restarts", "1", at=2, nnodes="2", hold=-1,
                      script=("--crash-at", "12")) for number in range(2)]
    begins(agents[0], 0, 0, 2)
    agents[1].reads("rank 1 fails at step 12, as asked")
    for agent in agents:
        agent.reads("round 1: .*; restart 1 of 1")  # whoever of the two was heard of first
    begins(agents[0], 1, 12, 2)
    last_loss(agents[0], 2)
    all_end(*agents)


tap.comment("PyTorch %s" % torch.__version__)
elastic.main()
