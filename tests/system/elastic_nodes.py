# SPDX-License-Identifier: Apache-2.0
#
# elastic_nodes.py --dtrun COMMAND ...: which nodes run, in which order, who waits beside them, and
# who pays when workers fail. The daemon stands on host 0, beside an agent.

import os
import re
import signal

import elastic
import tap
from elastic import FEWER, story

CRASH = "kill -SEGV $$"


# -- nodes that come and go -----------------------------------------------------------------------


@story(hosts=4)
def scale(s):
    """from two nodes to four, and down to three: ranks stay, and sizes are right"""
    s.serve(0)
    agents = s.running(2, nnodes="2:4", conf=FEWER)
    for size in 3, 4:
        agents.append(s.agent(size - 1, nnodes="2:4", conf=FEWER))
        for rank, agent in enumerate(agents):
            agent.reads("round %d: node%d joins; node%d takes seat %d; %d nodes instead of %d" % (
                size - 2, size - 1, size - 1, size - 1, size, size - 1))
            agent.starts(rank=rank, size=size, round=size - 2, restarts=0,
                         was=rank if rank < size - 1 else None)
    gone = agents.pop(1)
    gone.kill()
    for rank, agent in zip((0, 2, 1), agents):
        agent.reads("round 3: node1 went offline.*node3 takes seat 1 of node1; 3 nodes instead")
        agent.starts(rank=rank, size=3, round=3, restarts=0)
    s.succeed(*agents)


@story(hosts=5)
def late_ones(s):
    """nodes that come one after the other while a job runs are taken in by one new round"""
    s.serve(0)
    agents = s.running(2, nnodes="2:5", grow="5s", env={"SLURM_NNODES": "2"})
    for number in range(2, 5):
        agents.append(s.agent(number, nnodes="2:5", grow="5s"))
        if number < 4:
            agents[-1].reads("the job runs with 2 nodes; node%d joins it in about" % number)
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=5, round=1, restarts=0)
    s.succeed(*agents)


@story(hosts=3)
def late(s):
    """a node comes long after the others: they wait for it, and then begin together"""
    s.serve(0)
    agents = s.agents(2, nnodes="3")
    agents[0].reads("round 0: 2 of 3 nodes are ready; .*s left")
    agents.append(s.agent(2, nnodes="3"))
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=3, round=0)
    s.succeed(*agents)


@story(hosts=2)
def too_few(s):
    """too few nodes come within join_timeout: it is said how many, and who is missing"""
    s.serve(0)
    for policy, status in ("torchrun", 1), ("root-cause", 75):
        agent = s.agent(1, "--node-rank", "1", "--exit-code", policy, conf="join_timeout=1")
        agent.reads("the job ended, as too few nodes came: round \\d: 1 of 2 nodes are ready; "
                    "nobody came with --node-rank 0, after 1 s")
        agent.ends(status)


@story(hosts=4)
def surplus(s):
    """more nodes than the most come: the rest parks, is told so, and exits with 0"""
    s.serve(0)
    agents = s.running(2)
    spares = [s.agent(number) for number in (2, 3)]
    for spare in spares:
        spare.reads(r"the job runs with 2 nodes; node\d stands by as a spare")
    s.succeed(*agents)
    for spare in spares:
        spare.ends(0)


@story(hosts=3)
def fixed(s):
    """--spare-policy fixed: the least of --nnodes run, and the others are spares"""
    s.serve(0)
    options = "--spare-policy", "fixed"
    agents = s.running(2, *options, nnodes="2:3")
    spare = s.agent(2, *options, nnodes="2:3")
    spare.reads("stands by as a spare")
    agents[1].kill()
    agents[0].starts(rank=0, size=2, round=1)
    spare.starts(rank=1, size=2, round=1)
    s.succeed(agents[0], spare)


@story(hosts=3)
def preempted(s):
    """SIGTERM to one agent is a leave: it exits with 1, and the others go on without a restart"""
    s.serve(0)
    agents = s.running(3, nnodes="2:3")
    agents[2].kill(signal.SIGTERM)
    agents[2].ends(1)
    for rank, agent in enumerate(agents[:2]):
        agent.reads(r"round 0 is over: node2 leaves \(it got SIGTERM\)")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    s.succeed(*agents[:2])


@story(hosts=3)
def drained(s):
    """dtrun-ctl node drain takes a node out, and undrain lets it back"""
    s.serve(0)
    agents = s.running(3, nnodes="2:3")
    s.ctl(0, "node", "drain", "node2", "--why", "its fan is loud")
    for rank, agent in enumerate(agents[:2]):
        agent.reads("round 0 is over: node2 is drained .*its fan is loud")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    agents[2].reads('node2 is kept out until "dtrun-ctl node undrain node2": its fan is loud')
    kept_out = s.ctl(0, "node", "list", "--quarantined")
    tap.check_equal(bool(re.search("node2 +drained .*its fan is loud", kept_out)), True, kept_out)
    s.ctl(0, "node", "undrain", "node2")
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=3, round=2, restarts=0)
    s.succeed(*agents)


@story(hosts=2)
def drained_below_least(s):
    """a drain that leaves too few nodes: all that tell of the job say whom it waits for, and why"""
    s.serve(0)
    agents = s.running(2, nnodes="2:3", conf=FEWER)
    said = s.ctl(0, "node", "drain", "node1", "--why", "its fan is loud")
    tap.check_equal(bool(re.search("run job stops: it needs 2 nodes and has 1 left", said)), True, said)
    agents[0].reads(r"round 1: 1 of 2 nodes are ready; .*node1 is drained \(its fan is loud\)")
    status = s.ctl(0, "status")
    tap.check_equal(bool(re.search("gathering, round 1, 1 of 2:3 nodes.*\n  1 more node is needed; "
                                   "node1 is drained .its fan is loud", status)), True, status)
    s.ctl(0, "node", "undrain", "node1")
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=2, round=1, restarts=0)
    s.succeed(*agents)


@story(hosts=2)
def paused(s):
    """dtrun-ctl run pause ends the round, on all nodes and for nothing, and no other begins before run resume"""
    s.serve(0)
    agents = s.running(2, nnodes="2")
    s.ctl(0, "run", "pause", "job", "--why", "a demonstration")
    for agent in agents:
        agent.reads("round 0 is over: the run is paused .a demonstration.")
    status = s.ctl(0, "status")
    tap.check_equal(bool(re.search("paused, round 1, 2 of 2 nodes.*\n  paused .a demonstration. until", status)), True, status)
    s.ctl(0, "run", "resume", "job")
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=2, round=1, restarts=0)
    s.succeed(*agents)


# Workers that take their time to end, as those do that save, say so, and end when they are told.
SAVES = """
trap 'echo saving; read word < "$CONTROL.$LOCAL_RANK"; : > "$SAVED"; exit 0' TERM
echo training; while :; do sleep 1000 & wait; done
"""
# The next round begins with a look at what they left.
LOOKS = """[ "$DTRUN_ROUND" = 0 ] || [ -e "$SAVED" ] || echo "round $DTRUN_ROUND began beside them" """


@story(hosts=3)
def leaves(s):
    """SIGTERM to an agent: the others go on when its workers are gone everywhere, and not before"""
    s.serve(0)
    saved = s.path("saved")
    agents = s.agents(3, nnodes="2:3", env={"SAVED": saved, "AT_ONCE": LOOKS})
    for agent in agents:
        agent.starts(size=3, round=0)
    agents[2].tell(SAVES.replace("\n", "; ").strip("; "))
    agents[2].reads("training")
    agents[2].kill(signal.SIGTERM)
    agents[2].reads("saving")
    for agent in agents[:2]:
        agent.reads(r"round 0 is over: node2 leaves \(it got SIGTERM\)")
    tap.check_equal(bool(re.search("node2 +.*stopping", s.ctl(0, "node", "list"))), True, "node2 is waited for")
    agents[2].tell("now")
    for rank, agent in enumerate(agents[:2]):
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    agents[2].ends(1)
    s.succeed(*agents[:2])
    for agent in agents[:2]:
        tap.check_equal(agent.program.says("began beside them"), False, "an overlap of rounds")


# -- who sits where -------------------------------------------------------------------------------


@story(hosts=3)
def wishes(s):
    """--node-rank is the seat a node gets in the first round"""
    s.serve(0)
    agents = [s.agent(number, "--node-rank", rank, nnodes="3") for number, rank in enumerate("201")]
    for rank, agent in zip((2, 0, 1), agents):
        agent.starts(rank=rank, size=3, round=0, master="10.99.0.2")
    s.succeed(*agents)


@story(hosts=2)
def equal_wishes(s):
    """two nodes give the same --node-rank: they are named, and the job runs"""
    s.serve(0)
    agents = s.agents(2, "--node-rank", "0")
    for rank, agent in enumerate(agents):
        agent.reads(r"round 0: node\d and node\d both ask for --node-rank 0")
        agent.starts(rank=rank, size=2, round=0)
    s.succeed(*agents)


@story(hosts=3)
def ranks_anew(s):
    """--rank-policy torchrun: after a loss all ranks are given anew, in order of names"""
    s.serve(2)
    agents = s.running(3, "--rank-policy", "torchrun", nnodes="2:3", at=2)
    agents[0].kill()
    for rank, agent in enumerate(agents[1:]):
        agent.starts(rank=rank, size=2, round=1, was=rank + 1, master="10.99.0.2")
    s.succeed(*agents[1:])


@story(hosts=2)
def several_workers(s):
    """nodes with several workers each: ranks of a node follow one another"""
    s.serve(0)
    agents = [s.agent(0, nproc=2), s.agent(1, nproc=3)]
    for agent, ranks in zip(agents, ([0, 1], [2, 3, 4])):
        workers = [agent.starts(size=5, round=0) for _ in ranks]
        tap.check_equal(sorted(worker.rank for worker in workers), ranks, "ranks")
    s.succeed(*agents)


@story(hosts=2)
def two_on_a_host(s):
    """two agents of one job on the same host: each has a name and a place of its own"""
    s.serve(0)
    agents = [s.agent(number, nnodes="3") for number in (0, 1, 1)]
    ranks = [agent.starts(size=3, round=0).rank for agent in agents]
    tap.check_equal(sorted(ranks), [0, 1, 2], "ranks")
    tap.check_equal("node0 node1 node1#2".split(), sorted(
        re.findall(r"node\d\S*", s.ctl(0, "node", "list"))), "names")
    s.succeed(*agents)


@story(hosts=2)
def other_size(s):
    """a node asks for another MIN:MAX: it is refused, with both"""
    server = s.serve(0)
    first = s.agent(0, nnodes="2:2")
    server.expect("node0 .* came: 1 of 2:2 nodes")
    other = s.agent(1, nnodes="2:4")
    other.reads('node1 asks for --nnodes 2:4, but run "job" has 2:2; give all nodes the same')
    other.ends(1)
    second = s.agent(1, nnodes="2:2")
    for rank, agent in enumerate((first, second)):
        agent.starts(rank=rank, size=2, round=0)
    s.succeed(first, second)


# -- workers that fail ----------------------------------------------------------------------------


@story(hosts=2)
def counted_once(s):
    """workers of all nodes fail at once: it counts once, and the same on all nodes"""
    s.serve(0)
    agents = s.agents(2, "--max-restarts", "2", nproc=2,
                      env={"AT_ONCE": "[ $DTRUN_ROUND -gt 0 ] || exit 7"})
    for agent in agents:
        agent.reads("round 1: .*exited with 7.*; restart 1 of 2")
        for _ in range(2):
            agent.starts(size=4, round=1, restarts=1)
    s.succeed(*agents)


@story(hosts=3)
def budget_spent(s):
    """all restarts are spent: every node ends with 1 and says whose failure it was"""
    s.serve(0)
    agents = s.running(3, "--max-restarts", "1", nnodes="3")
    agents[1].tell("exit 7")
    for rank, agent in enumerate(agents):
        agent.reads("round 1: node1: .*exited with 7.*; restart 1 of 1")
        agent.starts(rank=rank, size=3, round=1, was=rank, restarts=1)
    agents[2].tell("exit 9")
    for agent in agents:
        agent.reads("the job failed: node2: .*of 1 restart none is left")
    agents[2].reads("ChildFailedError")
    agents[2].reads(r"exitcode *: 9 ")
    for agent in agents:
        agent.ends(1)


@story(hosts=2)
def late_joiner_of_the_budget(s):
    """a node that comes after a restart is told of it: the count is the job's"""
    s.serve(0)
    first = s.agent(0, "--max-restarts", "1", nnodes="1:2", conf=FEWER)
    first.starts(rank=0, size=1, round=0)
    first.tell("exit 7")
    first.starts(rank=0, size=1, round=1, restarts=1)
    second = s.agent(1, "--max-restarts", "1", nnodes="1:2", conf=FEWER)
    for rank, agent in enumerate((first, second)):
        agent.starts(rank=rank, size=2, round=2, restarts=1)
    s.succeed(first, second)


@story(hosts=3)
def quarantined(s):
    """a node that crashes three times is kept out, and comes back when its time is over"""
    s.serve(0)
    agents = s.running(3, "--quarantine-time", "6s", "--max-restarts", "5", nnodes="2:3")
    for number in range(1, 4):
        agents[2].tell(CRASH)
        for rank, agent in enumerate(agents if number < 3 else agents[:2]):
            agent.reads("round %d: node2: .*SIGSEGV; .*restart %d of 5" % (number, number))
            agent.starts(rank=rank, size=3 if number < 3 else 2, round=number, restarts=number)
    agents[2].reads(r'node2 is kept out for \S+ s \("dtrun-ctl node undrain node2" ends that\): 3 strikes')
    for rank, agent in enumerate(agents):
        agent.reads("round 4: node2 joins")
        agent.starts(rank=rank, size=3, round=4, restarts=3)
    s.succeed(*agents)


@story(hosts=3)
def bad_newcomer(s):
    """a node that joins and fails at once is kept out, and costs the others no restart"""
    s.serve(0)
    options = "--max-restarts", "1"
    agents = s.running(2, *options, nnodes="2:3", conf=FEWER)
    third = s.agent(2, *options, nnodes="2:3", conf=FEWER, env={"AT_ONCE": "exit 7"})
    for rank, agent in enumerate(agents):
        agent.reads("round 2: node2: .*exited with 7.*; it had just joined, so no restart is charged")
        agent.starts(rank=rank, size=2, round=2, restarts=0)
    third.reads("node2 is kept out for .*: it failed as soon as it had joined")
    s.succeed(*agents)
    third.ends(0)


@story(hosts=3)
def second_strike(s):
    """a node whose worker fails twice in a row makes room for the spare"""
    s.serve(0)
    agents = s.running(2, "--max-restarts", "5")
    spare = s.agent(2, "--max-restarts", "5")
    spare.reads("node2 stands by as a spare")
    agents[1].tell("exit 7")
    for agent in agents:
        agent.starts(size=2, round=1, restarts=1)
    agents[1].tell("exit 7")
    agents[0].reads("round 2: .*node1 failed 2 times in a row, so a spare takes its place")
    agents[0].starts(rank=0, size=2, round=2, restarts=2)
    spare.starts(rank=1, size=2, round=2, restarts=2)
    agents[1].reads("node1 stands by as a spare")
    s.succeed(agents[0], spare)
    agents[1].ends(0)


@story(hosts=2)
def logs(s):
    """what workers of an ended round printed is kept beside that of the round that followed"""
    s.serve(0)
    agents = s.running(2, "--redirects", "1", "--tee", "1", nnodes="1:2")
    agents[1].kill()
    agents[0].starts(rank=0, size=1, round=1, restarts=0)
    s.succeed(agents[0])
    where = s.path("logs", "node0")
    (run,) = os.listdir(where)
    for attempt, line in (("attempt_0.round_0", "rank 0 of 2, round 0, "),
                          ("attempt_0", "rank 0 of 1, round 1, ")):
        with open(os.path.join(where, run, attempt, "0", "stdout.log")) as f:
            tap.check_equal(f.read()[:len(line)], line, "what %s begins with" % attempt)


elastic.main()
