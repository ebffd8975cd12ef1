# SPDX-License-Identifier: Apache-2.0
#
# What stories of elastic jobs share: a cluster, a rendezvous, agents on hosts, and workers that say
# what they were told and then do what the story tells them. A program of stories is
#
#   @elastic.story(hosts=2)
#   def who(s):
#       """what happens, as the line of the result says it"""
#   elastic.main()
#
# When a story is over nothing may be left of it: no process on any host, and no file but logs.

import argparse
import collections
import os
import re
import select
import signal
import subprocess
import tempfile
import time

import netns
import tap

PORT = 29400
STORIES = []

# Workers wait for a line of shell on a FIFO of their own, so they are told things one by one. What
# several are to do at once they are told before.
WORKER = """
echo "rank $RANK of $WORLD_SIZE, round $DTRUN_ROUND, was ${DTRUN_PREV_RANK:-new},\
 restarts $TORCHELASTIC_RESTART_COUNT, at $MASTER_ADDR"
eval "$AT_ONCE"
read words < "$CONTROL.$LOCAL_RANK"
eval "$words"
"""

# Beats of a second, so that three of them are no long story; and who is on its way to the first
# round is waited for, unless a story begins with FEWER nodes than the most.
QUICK = "keep_alive_interval=1,last_call_timeout=60,join_timeout=60"
FEWER = "keep_alive_interval=1,last_call_timeout=1,join_timeout=60"
# The same for stories of what is shorter than three beats.
SLOW = "keep_alive_interval=3,last_call_timeout=60"

Worker = collections.namedtuple("Worker", "rank size round was restarts master")


# PyTorch 2.6 writes this in a temporary folder of its own, and a worker that is killed cannot take it away.
LEFT_BY_TORCH = "_remote_module_non_scriptable.py"


class Agent:
    """A dtrun on HOST, and its workers."""

    def __init__(self, host, program, controls):
        self.host = host
        self.program = program
        self.controls = controls

    def starts(self, **expected):
        """Its next worker: agent.starts(rank=1, size=2) fails where it has another rank."""
        m = self.program.expect(
            r"^(?:\[\w+\]:)?rank (\d+) of (\d+), round (\d+), was (\w+), restarts (\d+), at (\S+)")
        rank, size, number, was, restarts, master = m.groups()
        worker = Worker(int(rank), int(size), int(number), None if was == "new" else int(was),
                        int(restarts), master)
        for name, value in expected.items():
            tap.check_equal(getattr(worker, name), value,
                            "%s of a worker of %s (%r)" % (name, self.host.name, worker))
        return worker

    def reads(self, pattern):
        """What a person reads at its terminal, next or later."""
        return self.program.expect(pattern)

    def tell(self, words, worker=None):
        """Its workers, or one of them, are to do that."""
        for local_rank, control in enumerate(self.controls):
            if worker in (None, local_rank):
                os.write(control, (words + "\n").encode())

    def ends(self, status):
        tap.check_equal(self.program.end(), status, "exit status of %s, which said\n%s\n" % (
            self.host.name, "\n".join(self.program.lines)))

    def kill(self, signum=signal.SIGKILL):
        self.program.kill(signum)

    def unmoved(self):
        """Its first round never ended."""
        tap.check_equal(self.program.says("round [0-9]+ is over"), False, "a round was over")


class Story:
    """with Story(tools, 2) as s: ..."""

    def __init__(self, tools, hosts):
        self.tools = tools
        self.cluster = netns.Cluster(hosts)
        self.servers = []
        self.controls = []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cluster.__enter__()
        return self

    def __exit__(self, kind, *_):
        try:
            if not kind:
                self.leave_nothing()
        finally:
            self.cluster.__exit__()
            for control in self.controls:
                os.close(control)
            self.folder.cleanup()

    def path(self, *names):
        """Of a file of the story's; the folders above it are made."""
        path = os.path.join(self.folder.name, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    # -- programs --

    def serve(self, number, *options):
        """A dtrun-rendezvous on that host, once it listens."""
        program = self.cluster[number].run(
            *self.tools.rendezvous, "--listen", "*:%d" % PORT, "--drain-timeout", "1s", *options)
        program.expect(r"listening on .*:%d" % PORT)
        self.servers.append(program)
        return program

    def endpoint(self, number):
        return "%s:%d" % (self.cluster[number].address, PORT)

    def agent(self, number, *options, at=0, nnodes="2", nproc=1, run="job", conf=QUICK, env=None,
              grow="0", command=("--no-python", "sh", "-c", WORKER)):
        """A dtrun on that host, whose rendezvous is on host AT."""
        host = self.cluster[number]
        control = self.path("control", str(len(self.controls)))
        env = dict(env or {}, CONTROL=control, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0",
                   TMPDIR=os.path.dirname(self.path("tmp", host.name, "")))
        controls = [self.control("%s.%d" % (control, i)) for i in range(nproc)]
        program = host.run(
            *self.tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint(at),
            "--rdzv-id", run, "--rdzv-conf", conf, "--nnodes", nnodes, "--nproc-per-node", nproc,
            "--log-dir", self.path("logs", host.name), "--grow-interval", grow,
            *options, *command, env=env)
        return Agent(host, program, controls)

    def agents(self, count, *options, **more):
        """One on each of the first COUNT hosts."""
        return [self.agent(number, *options, **more) for number in range(count)]

    def running(self, count, *options, **more):
        """The same, once their workers are in the first round; one each, and ranks as the hosts."""
        agents = self.agents(count, *options, **more)
        for rank, agent in enumerate(agents):
            agent.starts(rank=rank, size=count, round=0, was=None, restarts=0, master="10.99.0.1")
        return agents

    def control(self, path):
        """A FIFO, open both ways, so that neither side waits for the other to open it."""
        os.mkfifo(path)
        self.controls.append(os.open(path, os.O_RDWR))
        return self.controls[-1]

    def ctl(self, number, *words, status=0):
        """What dtrun-ctl prints there."""
        program = self.cluster[number].run(
            *self.tools.ctl, "--endpoint", self.endpoint(number), *words)
        tap.check_equal(program.end(), status, "exit status of dtrun-ctl, which said\n%s\n" %
                        "\n".join(program.lines))
        return "\n".join(program.lines)

    # -- how stories begin and end --

    def succeed(self, *agents):
        """Their workers are done, and so are they."""
        for agent in agents:
            agent.tell("exit 0")
        for agent in agents:
            agent.ends(0)

    def succeed_unmoved(self, *agents):
        """The same, and they have noticed nothing."""
        self.succeed(*agents)
        for agent in agents:
            agent.unmoved()

    def leave_nothing(self):
        for server in self.servers:
            if server.popen.poll() is None:
                server.kill(signal.SIGTERM)
                tap.check_equal(server.end(), 0, "exit status of the rendezvous")
        for host in self.cluster.hosts:
            self.await_nobody(host)
        left = [os.path.join(where, name)
                for where, _, names in os.walk(self.path("tmp", "")) for name in names
                if name != LEFT_BY_TORCH]
        tap.check_equal(left, [], "temporary files that are left")

    @staticmethod
    def await_nobody(host, patience=60):
        """Who was killed may take a moment; who stays was left behind."""
        pids = subprocess.run(["ip", "netns", "pids", host.space], check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout.split()
        for pid in pids:
            try:
                fd = os.pidfd_open(int(pid))
            except ProcessLookupError:
                continue
            gone, _, _ = select.select([fd], [], [], patience)
            os.close(fd)
            if not gone:
                with open("/proc/%s/cmdline" % pid) as f:
                    raise AssertionError("%s is left on %s: %s" % (
                        pid, host.name, f.read().replace("\0", " ")))


def last(seconds):
    """For how long something is so, where that is what the story is about."""
    time.sleep(seconds)


def story(hosts):
    def add(run):
        STORIES.append((run.__doc__, hosts, run))
        return run
    return add


def main():
    """Runs the stories that were added."""
    parser = argparse.ArgumentParser()
    for tool in ("dtrun", "rendezvous", "ctl"):
        parser.add_argument("--" + tool, required=True, metavar="PROGRAM", type=lambda program: [program])
    parser.add_argument("--tokens", action="store_true", help="they were built with libsodium")
    parser.add_argument("--only", default="", metavar="PATTERN", help="stories whose line has it")
    options = parser.parse_args()
    tap.start()
    why = netns.why_not()
    if why:
        tap.skip_all(why)

    def tell(hosts, run):
        with Story(options, hosts) as s:
            run(s)

    for line, hosts, run in STORIES:
        if re.search(options.only, line):
            tap.case(line, lambda: tell(hosts, run))
    tap.done()
