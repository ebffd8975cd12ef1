# SPDX-License-Identifier: Apache-2.0
#
# elastic_hangs.py --dtrun COMMAND ...: jobs of PyTorch's gloo on several hosts in which one rank keeps the others waiting. All
# terminals say the same, dtrun-ctl shows it, and what --on-hang says is done by the node of that rank.

import re
import sys

import elastic
import tap
from elastic import story

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

# In its first attempt the last rank sleeps, until there is a file GO.
SCRIPT = """import os
import sys
import time
import torch
import torch.distributed as dist


def load_batch(step):
    go = sys.argv[1]
    last = dist.get_rank() == dist.get_world_size() - 1
    while step == 3 and last and go == "round":
        while time.time() % 2 < 1: pass  # ROUND

        while time.time() % 2 >= 1: pass
    while step == 3 and last and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and not os.path.exists(go):
        time.sleep(600 if go == "never" else 0.2)  # HERE
    return torch.ones(4) * step


while sys.argv[1] == "absent" and int(os.environ["RANK"]) + 1 == int(os.environ["WORLD_SIZE"]):
    time.sleep(600)  # BEFORE
dist.init_process_group("gloo")
for step in range(6 if sys.argv[1] == "never" else 40):
    if sys.argv[1] != "never":
        time.sleep(0.1)
    dist.all_reduce(load_batch(step))
    dist.barrier()
os._exit(0)  # 2.6 now and then hangs in destroy_process_group, whatever the store
"""


def place(mark):
    return "train.py:%d" % (1 + [line.endswith(mark) for line in SCRIPT.splitlines()].index(True))


HERE = place("# HERE")


def job(s, count, *options, at, go="never", **more):
    """That many agents, each with two ranks."""
    with open(s.path("train.py"), "w", encoding="utf-8") as f:
        f.write(SCRIPT)
    command = ("--no-python", sys.executable, s.path("train.py"), go)
    return [s.agent(number, "--hang-after", "3", "--shutdown-timeout", "1", *options, at=at, nnodes=str(count), nproc=2,
                    command=command, **more) for number in range(count)]


def sentence(agent, rank):
    """What is said on its terminal, where it is said once."""
    said = agent.reads(r"(?:warn|WARN)\S*\s+(.*\brank %d\b.*%s.*)" % (rank, re.escape(HERE))).group(1)
    tap.check_equal(sum(said in line for line in agent.program.lines), 1, "lines with %r" % said)
    return said


def sentences(agents):
    said = [sentence(agent, 2 * len(agents) - 1) for agent in agents]
    tap.check_equal(len(set(said)), 1, "different sentences: %r" % said)
    return said[0]


def kill(agents):
    for agent in agents:
        agent.kill()


@story(hosts=4)
def told(s):
    """three nodes, a rank of the last sleeps: all terminals say which rank, and at which line"""
    server = s.serve(3)
    agents = job(s, 3, at=3)
    said = sentences(agents)
    server.expect("run job: " + re.escape(said))
    tap.check_equal(said[:60] in s.ctl(3, "status", "job"), True, "status")
    look = s.ctl(3, "look", "job").splitlines()
    tap.check_equal(look[0].startswith("ranks 0 to 4: all_reduce " + s.path("train.py")[:1]), True, look)
    tap.check_equal(bool(re.match(r"rank 5: load_batch \S*%s \(sleeps\)$" % HERE, look[1])), True, look)
    tap.check_equal(look[2], said, "third line")
    tap.check_equal(s.ctl(3, "look", "job", "5").splitlines()[0], look[1], "one rank")
    kill(agents)


@story(hosts=3)
def absent(s):
    """a rank never comes to init_process_group: the others are told to wait for its address, and by which key"""
    s.serve(2)
    agents = job(s, 2, at=2, go="absent")
    waits = r"ranks 0 to 2 wait in init_process_group at \S+ (\(rank \d: )?for rank 3's address \(key \S+3\)"
    for agent in agents:
        agent.reads("rank 3 sleeps at .*%s; %s" % (re.escape(place("# BEFORE")), waits))
    look = s.ctl(2, "look", "job")
    tap.check_equal(bool(re.search(r"init_process_group .* \(waits in the store for rank 3's address, key \S+3\)", look)), True, look)
    kill(agents)


@story(hosts=3)
def rounds(s):
    """a rank goes round a loop over several lines: that is told without blame, and nobody is ended for it"""
    s.serve(2)
    agents = job(s, 2, "--on-hang", "stop", at=2, go="round")
    line = int(place("# ROUND").split(":")[1])
    for agent in agents:
        agent.reads(r"rank 3 loops at \S*train.py:\d+ in load_batch.. between lines %d and %d; ranks 0 to 2 wait in all_reduce " %
                    (line, line + 2))
        agent.reads("this takes long, or it is a loop without an end")
    kill(agents)


@story(hosts=2)
def hosted(s):
    """without a daemon, the agent that hosts the rendezvous finds it out, and says it once"""
    agents = job(s, 2, at=0)
    sentences(agents)
    kill(agents)


@story(hosts=3)
def over(s):
    """what stood still moves again: that is said, and the job ends well"""
    server = s.serve(2)
    agents = job(s, 2, at=2, go=s.path("go"))
    sentences(agents)
    with open(s.path("go"), "w", encoding="utf-8"):
        pass
    server.expect("moves again, as node. says, after")
    for agent in agents:
        agent.reads("the job moves again after")
        agent.ends(0)


@story(hosts=3)
def restarted(s):
    """--on-hang restart: the node of that rank ends it, and one restart is charged"""
    s.serve(2)
    agents = job(s, 2, "--on-hang", "restart", "--max-restarts", "1", at=2)
    sentences(agents)
    agents[1].reads("worker 1 .rank 3. is ended, as --on-hang says")
    for agent in agents:
        agent.reads("round 1: .*; restart 1 of 1")
        agent.ends(0)


@story(hosts=3)
def stopped(s):
    """--on-hang stop: that ends the job, though there are restarts left"""
    s.serve(2)
    agents = job(s, 2, "--on-hang", "stop", "--max-restarts", "3", at=2)
    sentences(agents)
    for agent in agents:
        agent.reads("the job failed: node1: rank 3 .*%s.*; this is to end the job" % re.escape(HERE))
        agent.ends(1)


@story(hosts=3)
def forgotten(s):
    """a rendezvous that is killed meanwhile, and forgot all, finds the same and nobody is told twice"""
    server = s.serve(2)
    agents = job(s, 2, at=2)
    said = sentences(agents)
    server.kill()
    for agent in agents:
        agent.reads("connecting again, workers run on")
    server = s.serve(2)
    server.expect("run job: " + re.escape(said[:17]))
    for agent in agents:
        agent.reads("is there again")
        tap.check_equal(sum(said[:80] in line for line in agent.program.lines), 1, "lines with it")
    kill(agents)


tap.comment("PyTorch %s" % torch.__version__)
elastic.main()
