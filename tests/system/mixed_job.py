# SPDX-License-Identifier: Apache-2.0
#
# An elastic job whose agents a test starts one by one, each ours or a real one. What the workers of
# all are told must fit together in each round.

import contextlib
import os
import socket
import tempfile

import servers
import tap
from agents import WHO, Agent

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(TOP, "examples", "train_ddp.py")

# A worker says who it is, and lives until the test has made a file: one that ends all, or one by
# which the first worker of agent $0 fails.
WORKER = WHO + """
while sleep 0.05; do
    [ ! -e "$1/end" ] || exit 0
    [ "$LOCAL_RANK" != 0 ] || ! rm "$1/$0.fails" 2>/dev/null || exit 3
done
"""


@contextlib.contextmanager
def store_of_workers():
    """Has worker 0 serve the workers' store, and not the agent that is first. With its agents' own
    2.6 neither grows a job, nor begins again reliably: it says where that store is in the first
    round only, and the keys of the last attempt are still in there."""
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    try:
        yield
    finally:
        del os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"]


class Job:
    """NODES: as in --nnodes. Round after round its agents hear who they are. HOST, an agent's name,
    serves the rendezvous, whoever may be there first; without one PORT is that of a server."""

    def __init__(self, nodes, restarts=1, host=None, port=0, name="job-7"):
        self.host, self.folder = host, tempfile.TemporaryDirectory()
        self.agents = {}
        self.options = ["--nnodes", nodes, "--rdzv_backend", "c10d", "--rdzv_id", name]
        self.options += ["--rdzv_endpoint", "%s:%d" % (servers.HOST, port or servers.free_port())]
        self.options += ["--max_restarts", str(restarts), "--monitor_interval", "0.1"]
        # Python 3.11 does not find "none" among the streams of 1.13; all we read is stdout.
        self.options += ["--redirects", "2", "--tee", "2"]

    def words(self, name, words):
        conf = "last_call_timeout=1,is_host=%d" % (name == self.host)
        return words + self.options + ["--rdzv_conf", conf]

    def start(self, name, words, nproc=1, role="default", extra=()):
        words = self.words(name, words) + list(extra)
        words += ["--nproc_per_node", str(nproc), "--role", role]
        words += ["--no_python", "sh", "-c", WORKER, name, self.folder.name]
        agent = Agent(words)
        agent.nproc, agent.role, agent.restarts = nproc, role, 0
        self.agents[name] = agent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for agent in self.agents.values():
            agent.kill()
        self.folder.cleanup()

    def make(self, name):
        open(os.path.join(self.folder.name, name), "w").close()

    def fail(self, name):
        """A worker of that agent fails, which counts there and nowhere else."""
        self.agents[name].restarts += 1
        self.make(name + ".fails")

    def round(self, *order):
        """All agents are in one round. ORDER: as they stand in it, where that is known."""
        told = {name: a.workers(a.nproc) for name, a in self.agents.items()}
        by_group = sorted(told, key=lambda name: told[name][0]["group"])
        if order:
            tap.check_equal(by_group, list(order), "order of the agents")
        agents = [self.agents[name] for name in by_group]
        masters = {worker["master"] for workers in told.values() for worker in workers}
        tap.check_equal(len(masters), 1, "places to meet at, %s" % masters)
        first, before = 0, {}
        for group, (name, agent) in enumerate(zip(by_group, agents)):
            for i, worker in enumerate(told[name]):
                wanted = {
                    "rank": [first + i, sum(a.nproc for a in agents)],
                    "role": [
                        before.get(agent.role, 0) + i,
                        sum(a.nproc for a in agents if a.role == agent.role),
                    ],
                    "group": [group, len(agents)],
                    "round": agent.restarts,
                }
                for what in wanted:
                    tap.check_equal(worker[what], wanted[what], "%s, local rank %d: %s" % (name, i, what))
            first += agent.nproc
            before[agent.role] = before.get(agent.role, 0) + agent.nproc
        return masters

    def end(self):
        self.make("end")
        for agent in self.agents.values():
            agent.finish()
            tap.check_equal("not waiting for the other" in agent.said(), False, "waited in vain")

    def train(self, launchers):
        """A program that fails once, under the launchers given by name, each with one worker."""
        try:
            socket.getaddrinfo(socket.getfqdn(), 1)
        except OSError:
            raise tap.Skip("this host does not know its own name")
        script = ["--nproc_per_node", "1", TRAIN, "--crash-at", "12", "--checkpoint"]
        script.append(os.path.join(self.folder.name, "checkpoint"))
        for name, words in launchers.items():
            self.agents[name] = Agent(self.words(name, words) + script)
        for agent in self.agents.values():
            agent.finish()
        said = "".join(line for agent in self.agents.values() for line in agent.rest)
        last = "step 19 of 20 on %d ranks" % len(launchers)
        tap.check_equal(said.count(last), 1, "ends in " + said[-2000:])
