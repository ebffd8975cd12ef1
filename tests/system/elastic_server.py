# SPDX-License-Identifier: Apache-2.0
#
# elastic_server.py --dtrun COMMAND ...: the rendezvous dies, comes back, comes late, asks for a
# token, and is talked to by those who have no business there.

import json
import os
import re
import signal

import elastic
import tap
from elastic import FEWER, story

AWAY = "the rendezvous at 10.99.0.1:29400: .*connecting again, workers run on"


# -- it dies and comes back -----------------------------------------------------------------------


JOURNALLED = "runs of the journal that wait for their agents: 1$"


def restarted(s, signum, *options):
    """The server, ended in the middle of a round of three nodes, and another in its place."""
    server = s.serve(0, *options)
    agents = s.running(3, nnodes="2:3")
    server.kill(signum)
    for agent in agents:
        agent.reads(AWAY)
    server.end()
    return s.serve(0, *options), agents


def goes_on(s, agents):
    """Nobody noticed, and the next loss is dealt with as ever."""
    for agent in agents:
        agent.reads("the rendezvous at 10.99.0.1:29400 is there again")
        agent.unmoved()
    agents[2].kill()
    for rank, agent in enumerate(agents[:2]):
        agent.reads("round 0 is over: node2 (went offline|did not come back)")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    s.succeed(*agents[:2])


@story(hosts=3)
def killed_with_journal(s):
    """kill -9 of a rendezvous with --state-dir: its successor knows all, workers notice nothing"""
    server, agents = restarted(s, signal.SIGKILL, "--state-dir", s.path("state"))
    tap.check_equal(server.says(JOURNALLED), True, "the journal is read")
    goes_on(s, agents)


@story(hosts=3)
def killed_without_journal(s):
    """kill -9 of a rendezvous without: its successor learns from the nodes, nobody notices"""
    server, agents = restarted(s, signal.SIGKILL)
    server.expect(r"learnt from node\d that round 0 of 3 nodes runs; waiting for the others")
    for _ in agents:
        server.expect(r"node\d is back with seat \d of round 0")
    goes_on(s, agents)


@story(hosts=2)
def history(s):
    """dtrun-ctl history: what ended each round and what was decided, also after the rendezvous was killed"""
    server = s.serve(0, "--state-dir", s.path("state"))
    agents = s.running(2, "--max-restarts", "2", nnodes="2")
    tap.check_equal(s.ctl(0, "history", "job"), "no round of this run is over", "history")
    agents[1].tell("exit 7")
    for rank, agent in enumerate(agents):
        agent.reads("root cause of the last round: node1: rank 1 ended without saying why")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=1)
    wanted = (r"ROUND +ENDED +LASTED +STEPS +LOST +DECIDED +CAUSE\n"
              r"0 +\S+ \S+Z +\d.* - +\d.* restart 1 of 2 +node1: rank 1 ended without saying why \(exit status 7\);.*")
    before = s.ctl(0, "history", "job")
    if not re.fullmatch(wanted, before):
        raise AssertionError(before)
    server.kill(signal.SIGKILL)
    server.end()
    s.serve(0, "--state-dir", s.path("state"))
    tap.check_equal(s.ctl(0, "history", "job"), before, "history, by the next rendezvous")
    for agent in agents:
        agent.reads("is there again")
    s.succeed(*agents)
    told = s.ctl(0, "--json", "history", "job")
    rounds = json.loads(told)["history"]
    tap.check_equal([(r["round"], r["decided"]) for r in rounds],
                    [(0, "restart 1 of 2"), (1, "the job ended: succeeded")], "rounds")


# Workers that end when they are told, and not when they are stopped.
ENDS = """trap 'echo stopping; read word < "$CONTROL.$LOCAL_RANK"; exit 0' TERM; """ \
    "echo training; while :; do sleep 1000 & wait; done"


def forgets(s, happens, goes):
    """HAPPENS to the third node; the server is killed while workers are stopped, and knows nothing when it is back."""
    server = s.serve(0)
    agents = s.running(3, nnodes="2:3")
    stay = [agent for agent in agents if agent is not agents[2] or not goes]
    for agent in stay:
        agent.tell(ENDS)
        agent.reads("training")
    happens(agents[2])
    for agent in stay:
        agent.reads("stopping")
    server.kill(signal.SIGKILL)
    server.end()
    s.serve(0).expect(r"round 0 is over: node2 (went offline|leaves)")
    for agent in stay:
        agent.reads("the rendezvous at 10.99.0.1:29400 is there again")
        agent.tell("now")
    for rank, agent in enumerate(stay[:2]):
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    return agents


@story(hosts=3)
def forgets_loss(s):
    """killed without --state-dir while workers stop for a node that was lost: no worker failed, and no restart is needed"""
    s.succeed(*forgets(s, lambda agent: agent.kill(), True)[:2])


@story(hosts=3)
def forgets_leave(s):
    """the same for a node that leaves, and takes its time"""
    agents = forgets(s, lambda agent: agent.kill(signal.SIGTERM), False)
    agents[2].ends(1)
    s.succeed(*agents[:2])


@story(hosts=3)
def replaced_with_journal(s):
    """SIGTERM to a rendezvous with --state-dir, as for an update: workers notice nothing"""
    server, agents = restarted(s, signal.SIGTERM, "--state-dir", s.path("state"))
    tap.check_equal(server.says(JOURNALLED), True, "the journal is read")
    goes_on(s, agents)


@story(hosts=4)
def node_dies_meanwhile(s):
    """a node dies while the rendezvous is away: its successor finds out"""
    state = s.path("state")
    server = s.serve(3, "--state-dir", state)
    first, second, third = s.running(3, nnodes="2:3", at=3)
    server.kill()
    server.end()
    third.kill()
    third.ends(-signal.SIGKILL)
    s.serve(3, "--state-dir", state)
    for rank, agent in enumerate((first, second)):
        agent.reads("round 0 is over: node2 did not come back after the rendezvous was restarted")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=0)
    s.succeed(first, second)


@story(hosts=3)
def done_meanwhile(s):
    """workers are done while the rendezvous is away: it hears of it, and all end well"""
    server, agents = s.serve(0), s.running(3, nnodes="2:3")
    server.kill()
    for agent in agents:
        agent.reads(AWAY)
        agent.tell("exit 0")
    server.end()
    s.serve(0)
    for agent in agents:
        agent.ends(0)


@story(hosts=2)
def failed_meanwhile(s):
    """a worker fails while the rendezvous is away: it hears of it, and counts it"""
    state = s.path("state")
    server = s.serve(0, "--state-dir", state)
    agents = s.running(2, "--max-restarts", "1")
    server.kill()
    for agent in agents:
        agent.reads(AWAY)
    agents[1].tell("exit 7")
    agents[1].reads("exit")
    server.end()
    s.serve(0, "--state-dir", state)
    for rank, agent in enumerate(agents):
        agent.reads("round 1: node1: .*exited with 7.*; restart 1 of 1")
        agent.starts(rank=rank, size=2, round=1, was=rank, restarts=1)
    s.succeed(*agents)


@story(hosts=2)
def stop_without(s):
    """--on-daemon-loss stop: workers end when the rendezvous is gone, and begin when it is back"""
    server = s.serve(0)
    agents = s.running(2, "--on-daemon-loss", "stop", "--max-restarts", "1")
    agents[1].tell("exit 7")
    for agent in agents:
        agent.starts(size=2, round=1, restarts=1)
    server.kill()
    for agent in agents:
        agent.reads("round 1 is over: .*workers are not to run without it")
    server.end()
    s.serve(0)
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=2, round=2, restarts=1)
    s.succeed(*agents)


# -- it comes late --------------------------------------------------------------------------------


DOOR = """
import socket, sys
door = socket.create_server(("", int(sys.argv[1])))
for _ in range(2):
    door.accept()[0].close()
    print("somebody knocked", flush=True)
"""


@story(hosts=3)
def late_server(s):
    """all nodes are started before the rendezvous: they wait for it"""
    door = s.cluster[2].run("/usr/bin/python3", "-c", DOOR, elastic.PORT)
    agents = s.agents(2, at=2)
    tap.check_equal(door.end(), 0, "exit status of the door")
    s.serve(2)
    for rank, agent in enumerate(agents):
        agent.starts(rank=rank, size=2, round=0)
    s.succeed(*agents)


# -- who may come ---------------------------------------------------------------------------------


def secret(s, name, text):
    if not s.tools.tokens:
        raise tap.Skip("libsodium was missing when dtrun was built")
    path = s.path(name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write(text + "\n")
    return path


@story(hosts=3)
def token(s):
    """--token-file: who knows the token is let in, who knows another or none is told so"""
    right, wrong = secret(s, "right", "open sesame"), secret(s, "wrong", "open barley")
    s.serve(0, "--token-file", right)
    stranger = s.agent(2, nnodes="2:3")
    stranger.reads("it asks for a token; give the file that holds it with --token-file")
    stranger.ends(1)
    liar = s.agent(2, "--token-file", wrong, nnodes="2:3")
    liar.reads("token")
    liar.ends(1)
    agents = s.running(2, "--token-file", right, nnodes="2:3", conf=FEWER)
    tap.check_equal("run job: running" in s.ctl(0, "--token-file", right, "status"), True, "status")
    s.ctl(0, "status", status=1)
    s.succeed(*agents)


@story(hosts=2)
def token_of_agents(s):
    """--token-file in a job whose agents host the rendezvous: the same"""
    right = secret(s, "right", "open sesame")
    first = s.agent(0, "--token-file", right)
    stranger = s.agent(1)
    stranger.reads("it asks for a token; give the file that holds it with --token-file")
    stranger.ends(1)
    second = s.agent(1, "--token-file", right)
    for rank, agent in enumerate((first, second)):
        agent.starts(rank=rank, size=2, round=0)
    s.succeed(first, second)


@story(hosts=2)
def needless_token(s):
    """a rendezvous that knows no token is none for agents that have one"""
    s.serve(0)
    agent = s.agent(1, "--token-file", secret(s, "right", "open sesame"))
    agent.reads("it asks for no token, so it may be anybody's; start it with --token-file too")
    agent.ends(1)


# What no agent says, each on a connection of its own that the server is to end.
STRANGER = r"""
import os, socket, struct, sys

def frame(text):
    return struct.pack("<I", len(text)) + text

hello = b'{"type":"hello","version":1,"program":"x","nonce":"' + b"0" * 32 + b'"}'
beat = (b'{"type":"beat","run":"job","round":0,"incarnation":"1","seq":1,"step":-1,'
        b'"running":1,"failed":0,"succeeded":0}')
says = [os.urandom(4096), b"DT", b"DTRN", b"DTRN\x63\x00" + frame(hello),
        b"DTRN\x01\x00\xff\xff\xff\xff" + b"x" * 70000, b"DTRN\x01\x00" + frame(b"{")]
says += [b"DTRN\x01\x00" + frame(text)
         for text in (b"", b"[]", b'{"type":"nothing"}', b'{"type":"hello"}', beat, b"{" * 60000)]
says += [b"DTRN\x01\x00" + frame(hello) + frame(text)
         for text in (hello, beat, beat.replace(b'"round":0', b'"round":-7'), b"\0" * 100)]
for words in says:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as s:
        try:
            s.sendall(words)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except socket.timeout:
            raise
        except OSError:
            pass  # it would not hear more
print("said all", flush=True)
"""


@story(hosts=3)
def garbage(s):
    """strangers talk nonsense on the port of the rendezvous: the job does not notice"""
    s.serve(0)
    agents = s.running(2)
    stranger = s.cluster[2].run(
        "/usr/bin/python3", "-c", STRANGER, s.cluster[0].address, elastic.PORT)
    stranger.expect("said all")
    tap.check_equal("run job: running" in s.ctl(0, "status"), True, "status")
    s.succeed_unmoved(*agents)


# -- several jobs ---------------------------------------------------------------------------------


@story(hosts=3)
def two_jobs(s):
    """two jobs on one rendezvous and the same hosts: the one's losses are not the other's"""
    s.serve(2)
    one = s.running(2, run="one", nnodes="1:2", at=2)
    two = s.running(2, run="two", nnodes="1:2", at=2)
    status = s.ctl(2, "status")
    for run in "one", "two":
        tap.check_equal("run %s: running, round 0, 2 of 1:2 nodes" % run in status, True, status)
    one[1].kill()
    one[0].reads("round 0 is over: node1 went offline")
    one[0].starts(rank=0, size=1, round=1)
    s.succeed(one[0])
    s.succeed_unmoved(*two)


@story(hosts=3)
def namesake(s):
    """another job of the scheduler's under the same --rdzv-id: it is refused, with the reason"""
    s.serve(0)
    agents = s.running(2, nnodes="2:3", conf=FEWER, env={"SLURM_JOB_ID": "11"})
    other = s.agent(2, nnodes="2:3", conf=FEWER, env={"SLURM_JOB_ID": "12"})
    other.reads('run "job" belongs to the scheduler\'s job 11, and node2 comes from job 12')
    other.ends(1)
    s.succeed_unmoved(*agents)


@story(hosts=3)
def other_command(s):
    """a node of another program under the same --rdzv-id: it is refused, with both programs and what to do"""
    s.serve(0)
    agents = s.running(2)
    other = s.agent(2, command=("--no-python", "/bin/sh", "-c", elastic.WORKER))
    other.reads('node2 runs /bin/sh as root, but run "job" runs sh as root; give each job an --rdzv-id')
    other.ends(1)
    s.succeed_unmoved(*agents)


@story(hosts=2)
def next_job(s):
    """when a job is over the next one may have its name"""
    s.serve(0)
    for number in range(2):
        agents = s.agents(2)
        for rank, agent in enumerate(agents):
            agent.starts(rank=rank, size=2, was=None, restarts=0)
        agents[0].tell("exit %d" % (1 - number))
        agents[1].tell("exit 0")
        for agent in agents:
            agent.ends(1 - number)


@story(hosts=2)
def met_there(s):
    """workers meet at the address that reached the rendezvous, or at --local-addr"""
    for number, host in enumerate(s.cluster.hosts):
        host.ip("addr", "add", "10.98.0.%d/24" % (number + 1), "dev", "eth0")
    s.serve(1)
    for options, master in ((), "10.99.0.1"), (("--local-addr", "10.98.0.1"), "10.98.0.1"):
        agents = [s.agent(0, *options, at=1), s.agent(1, at=1)]
        for agent in agents:
            agent.starts(size=2, master=master)
        s.succeed(*agents)


elastic.main()
