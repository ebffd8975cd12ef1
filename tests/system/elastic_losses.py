# SPDX-License-Identifier: Apache-2.0
#
# elastic_losses.py --dtrun COMMAND ...: nodes that die, are cut off, or stand still, and what the
# others make of it. The daemon stands on a host of its own, the last.

import signal

import elastic
import tap
from elastic import SLOW, last, story


# -- nodes that die -------------------------------------------------------------------------------


@story(hosts=4)
def killed(s):
    """kill -9 of an agent: the others are told who went, and go on as fewer"""
    s.serve(3)
    first, second, third = s.running(3, nnodes="2:3", at=3)
    third.kill()
    for rank, agent in enumerate((first, second)):
        agent.reads(r"round 0 is over: node2 went offline \(its connection closed")
        agent.reads(r"round 1: node2 went offline .*; 2 nodes instead of 3")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    s.succeed(first, second)
    third.ends(-signal.SIGKILL)


@story(hosts=4)
def first_killed(s):
    """kill -9 of the agent of rank 0: another takes its seat, and workers meet there"""
    s.serve(3)
    first, second, third = s.running(3, nnodes="2:3", at=3)
    first.kill()
    for agent in (second, third):
        agent.reads("round 0 is over: node0 went offline")
        agent.reads("round 1: .*node2 takes seat 0 of node0; 2 nodes instead of 3")
    second.starts(rank=1, size=2, round=1, was=1, restarts=0, master="10.99.0.3")
    third.starts(rank=0, size=2, round=1, was=2, restarts=0, master="10.99.0.3")
    s.succeed(second, third)


@story(hosts=4)
def spare(s):
    """kill -9 of an agent: a spare takes its seat and its rank"""
    s.serve(3)
    first, second = s.running(2, "--spares", "1", at=3)
    third = s.agent(2, "--spares", "1", at=3)
    third.reads("the job runs with 2 nodes; node2 stands by as a spare")
    second.kill()
    for agent in (first, third):
        agent.reads("round 1: node1 went offline .*; node2 takes seat 1 of node1")
    first.starts(rank=0, size=2, round=1, was=0, restarts=0, master="10.99.0.1")
    third.starts(rank=1, size=2, round=1, was=None, restarts=0, master="10.99.0.1")
    s.succeed(first, third)


@story(hosts=5)
def near_spare(s):
    """a spare of the lost node's own domain goes before one that has waited for longer"""
    s.serve(4)
    agents = []
    for number, domain in enumerate(("rack-a", "rack-b", "rack-b", "rack-a")):
        agents.append(s.agent(number, "--domain-key", domain, "--spares", "2", at=4))
        if number == 1:
            for agent in agents:
                agent.starts(size=2, round=0, master="10.99.0.1")
        if number >= 2:
            agents[number].reads("node%d stands by as a spare" % number)
    first, second, third, fourth = agents
    first.kill()
    second.reads("node3 takes seat 0 of node0")
    second.starts(rank=1, size=2, round=1, was=1, master="10.99.0.4")
    fourth.starts(rank=0, size=2, round=1, was=None, master="10.99.0.4")
    s.succeed(second, fourth)
    third.ends(0)


@story(hosts=4)
def back_again(s):
    """an agent that was killed is started again: it has its seat back"""
    s.serve(3)
    first, second, third = s.running(3, nnodes="3", at=3)
    second.kill()
    first.reads("round 0 is over: node1 went offline")
    second = s.agent(1, nnodes="3", at=3)
    for rank, agent in enumerate((first, second, third)):
        agent.starts(rank=rank, size=3, round=1, restarts=0)
    s.succeed(first, second, third)


@story(hosts=4)
def too_many_lost(s):
    """more nodes are lost than --max-node-losses allows: all end, and say so"""
    s.serve(3)
    agents = s.running(3, "--max-node-losses", "1", nnodes="1:3", at=3)
    agents[2].kill()
    for agent in agents[:2]:
        agent.starts(size=2, round=1)
    agents[1].kill()
    agents[0].reads(r"the job failed: node1 went offline .*may lose no more than 1 node ")
    agents[0].ends(1)


# -- nodes that are cut off -----------------------------------------------------------------------


def outage(s, cut, heal, told):
    """Node 2 is cut off for longer than three beats: the others go on, and take it back after."""
    s.serve(3)
    first, second, third = s.running(3, nnodes="2:3", at=3)
    cut(s.cluster[2])
    for rank, agent in enumerate((first, second)):
        agent.reads(r"round 0 is over: node2 went offline")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    if told:
        third.reads(told)
    heal(s.cluster[2])
    third.reads("round 0 is over: .*round 0 went on without this node")
    for rank, agent in enumerate((first, second, third)):
        agent.reads("round 2: .*node2 joins.*3 nodes instead of 2")
        agent.starts(rank=rank, size=3, round=2, restarts=0)
    s.succeed(first, second, third)


SILENT = "nothing was heard of the rendezvous for .*connecting again"


@story(hosts=4)
def cut_for_long(s):
    """a link is down for more than three beats: the node is given up, and taken in again later"""
    outage(s, lambda host: host.cut(), lambda host: host.heal(), SILENT)


@story(hosts=4)
def deaf_for_long(s):
    """a link is down one way, towards the node: it is given up, and taken in again later"""
    outage(s, lambda host: host.cut(("in",)), lambda host: host.heal(), SILENT)


@story(hosts=4)
def mute_for_long(s):
    """a link is down one way, from the node: it is given up, and taken in again later"""
    outage(s, lambda host: host.cut(("out",)), lambda host: host.heal(), SILENT)


@story(hosts=4)
def cut_for_short(s):
    """a link is down for less than three beats: nobody notices"""
    s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3, conf=SLOW)
    s.cluster[2].cut()
    last(3)
    s.cluster[2].heal()
    s.succeed_unmoved(*agents)


@story(hosts=4)
def flapping(s):
    """a link that comes and goes: nobody notices"""
    s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3, conf=SLOW)
    for way in ("in", "out", "in", "out"):
        s.cluster[2].cut((way,))
        last(0.5)
        s.cluster[2].heal()
        last(0.25)
    s.succeed_unmoved(*agents)


@story(hosts=4)
def cut_to_the_end(s):
    """a node is cut off until the others are done: it is told so then, and ends as they did"""
    server = s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3)
    s.cluster[2].cut()
    for agent in agents[:2]:
        agent.starts(size=2, round=1)
    s.succeed(*agents[:2])
    server.expect("closed: all nodes .2. have succeeded")
    s.cluster[2].heal()
    agents[2].ends(0)


@story(hosts=4)
def all_cut(s):
    """the daemon is cut off from everybody for a while: workers run on, nothing begins anew"""
    server = s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3)
    s.cluster[3].cut()
    for agent in agents:
        agent.reads("nothing was heard of the rendezvous for .*connecting again")
    server.expect("went offline")
    s.cluster[3].heal()
    for _ in agents:
        server.expect(r"node\d is back with seat \d of round 0")
    s.succeed_unmoved(*agents)


@story(hosts=4)
def server_cut_for_short(s):
    """the daemon's own link is down for three beats: it gives no node up, and no round ends"""
    server = s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3)
    s.cluster[3].cut()
    server.expect("most of the 3 nodes are silent at once: that may be our own network")
    agents[0].reads(SILENT)
    s.cluster[3].heal()
    agents[0].reads("is there again")
    s.succeed_unmoved(*agents)
    tap.check_equal(server.says("went offline|is over"), False, "the daemon gave a node up")


def link_of_head_down(s, size, told):
    """The link of node 0, where the daemon runs beside an agent, is down for three beats: it gives no node up."""
    server = s.serve(0)
    agents = s.running(size, nnodes=str(size))
    s.cluster[0].cut()
    server.expect(told)
    for agent in agents[1:]:
        agent.reads(SILENT)
    s.cluster[0].heal()
    for agent in agents[1:]:
        agent.reads("is there again")
    s.succeed_unmoved(*agents)
    tap.check_equal(server.says("went offline|is over"), False, "the daemon gave a node up")


@story(hosts=3)
def head_cut_for_short(s):
    """the same where an agent runs beside the daemon, and is heard all the time"""
    link_of_head_down(s, 3, "most of the 2 nodes on other hosts are silent at once: that may be our own network")


@story(hosts=2)
def head_of_two_cut_for_short(s):
    """the same of two nodes, one beside the daemon: the job could not go on with one"""
    link_of_head_down(s, 2, "the only node on another host, .*, is silent: that may be our own network")


# -- agents that stand still ----------------------------------------------------------------------


@story(hosts=4)
def stopped_for_short(s):
    """an agent is stopped for less than three beats: nobody notices"""
    s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3, conf=SLOW)
    agents[2].kill(signal.SIGSTOP)
    last(3)
    agents[2].kill(signal.SIGCONT)
    s.succeed_unmoved(*agents)


@story(hosts=4)
def stopped_for_long(s):
    """an agent is stopped for more than three beats: it comes back as a new node"""
    s.serve(3)
    first, second, third = s.running(3, nnodes="2:3", at=3)
    third.kill(signal.SIGSTOP)
    for rank, agent in enumerate((first, second)):
        agent.reads(r"round 0 is over: node2 went offline \(not heard of for \d+ s\)")
        agent.starts(rank=rank, size=2, round=1)
    third.kill(signal.SIGCONT)
    third.reads("round 0 is over")
    for rank, agent in enumerate((first, second, third)):
        agent.starts(rank=rank, size=3, round=2, restarts=0)
    s.succeed(first, second, third)


@story(hosts=4)
def server_stopped(s):
    """the daemon is stopped for more than three beats: no node's silence counts"""
    server = s.serve(3)
    agents = s.running(3, nnodes="2:3", at=3)
    server.kill(signal.SIGSTOP)
    for agent in agents:
        agent.reads(SILENT)
    server.kill(signal.SIGCONT)
    for agent in agents:
        agent.reads("is there again")
    s.succeed_unmoved(*agents)


# -- rendezvous that an agent hosts ---------------------------------------------------------------


@story(hosts=3)
def host_killed(s):
    """kill -9 of the agent that hosts the rendezvous: the others say so, and end"""
    agents = s.running(3, nnodes="2:3", at=0)
    agents[0].kill()
    for agent in agents[1:]:
        agent.reads("the rendezvous at 10.99.0.1:29400, hosted by an agent there, has been gone")
        agent.ends(1)


@story(hosts=3)
def host_leaves(s):
    """SIGTERM to the agent that hosts the rendezvous: the others say so, and end"""
    agents = s.running(3, nnodes="2:3", at=0)
    agents[0].kill(signal.SIGTERM)
    for agent in agents[1:]:
        agent.reads("this node lost the rendezvous of its job: .*SIGTERM")
    for agent in agents:
        agent.ends(1)


@story(hosts=3)
def all_told_to_end(s):
    """SIGTERM to all agents at once, as a scheduler sends it: all end with 1"""
    agents = s.running(3, nnodes="2:3", at=0)
    for agent in agents:
        agent.kill(signal.SIGTERM)
    for agent in agents:
        agent.ends(1)


@story(hosts=3)
def hosted(s):
    """an agent hosts the rendezvous: it sees the others through losses and to the end"""
    agents = s.running(3, nnodes="2:3", at=0)
    agents[2].kill()
    for rank, agent in enumerate(agents[:2]):
        agent.reads("round 0 is over: node2 went offline")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0, master="10.99.0.1")
    agents[0].tell("exit 0")
    s.succeed(agents[1])
    agents[0].ends(0)


elastic.main()
