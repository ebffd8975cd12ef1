# SPDX-License-Identifier: Apache-2.0
#
# Several hosts on one machine: a network namespace each, with a name of its own, on one switch that
# is a namespace too, so that nothing of the machine's own network is touched. Links can be cut, one
# way or both. What runs on a host is followed line by line; a story waits for what it expects to
# read, and never for seconds. All of it is gone with the Cluster.

import collections
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import tap

PATIENCE = int(os.environ.get("DT_PATIENCE", "120"))  # seconds until what a story waits for will not come any more


def why_not():
    """What is missing for namespaces here, or None."""
    for tool, package in (("ip", "iproute2"), ("nft", "nftables"), ("unshare", "util-linux")):
        if not shutil.which(tool):
            return "%s is missing (package %s)" % (tool, package)
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = subprocess.run(
        ["unshare", "--net", "--uts", "nft", "add", "table", "inet", "probe"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if probe.returncode != 0:
        return "namespaces with nftables cannot be made: " + probe.stdout.strip().splitlines()[-1]
    return None


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def delete(space):
    subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)


def sweep():
    """Deletes what a killed test has left: its process id is in the name, and is nobody's."""
    spaces = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE,
                            universal_newlines=True).stdout
    for space, pid in re.findall(r"^(dt(\d+)-\d\S*)", spaces, re.MULTILINE):
        if not os.path.exists("/proc/" + pid):
            delete(space)


class Program:
    """One that runs on a host. Its lines, of both streams, are kept in the order they came."""

    def __init__(self, name, popen):
        self.name = name
        self.popen = popen
        self.lines = []
        self._seen = 0
        self._more = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.popen.stdout:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def expect(self, pattern, patience=PATIENCE):
        """The next line, behind those that were expected before, that PATTERN is found in."""
        deadline = time.monotonic() + patience
        with self._more:
            while True:
                for i in range(self._seen, len(self.lines)):
                    match = re.search(pattern, self.lines[i])
                    if match:
                        self._seen = i + 1
                        return match
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise AssertionError("%s never said %r; it said:\n%s" % (
                        self.name, pattern, "\n".join(self.lines)))
                self._more.wait(left)

    def says(self, pattern):
        """Whether it has said so by now."""
        with self._more:
            return any(re.search(pattern, line) for line in self.lines)

    def forget(self):
        """What was said so far is not what is expected next."""
        with self._more:
            self._seen = len(self.lines)

    def kill(self, signum=signal.SIGKILL):
        self.popen.send_signal(signum)

    def end(self, patience=PATIENCE):
        """Its exit status, once it has ended by itself."""
        try:
            status = self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError("%s does not end; it said:\n%s" % (
                self.name, "\n".join(self.lines))) from None
        with self._more:
            while not self._ended and self._more.wait(patience):
                pass
        return status


class Host:
    def __init__(self, cluster, number):
        self.cluster = cluster
        self.name = "node%d" % number
        self.address = "10.99.0.%d" % (number + 1)
        self.space = "%s-%d" % (cluster.name, number)
        self.ahead = 0  # seconds by which the clocks of programs that are started here are ahead of others'
        link = "eth%d" % number
        sh("ip", "netns", "add", self.space)
        sh("ip", "-n", cluster.name, "link", "add", link, "type", "veth", "peer", "name", "eth0",
           "netns", self.space)
        sh("ip", "-n", cluster.name, "link", "set", link, "master", "switch", "up")
        self.ip("addr", "add", self.address + "/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        self.ip("link", "set", "lo", "up")
        self.nft("add table inet story",
                 "add chain inet story in { type filter hook input priority 0 ; }",
                 "add chain inet story out { type filter hook output priority 0 ; }")

    def ip(self, *words):
        sh("ip", "-n", self.space, *words)

    def nft(self, *commands):
        for command in commands:
            sh("ip", "netns", "exec", self.space, "nft", command)

    def run(self, *command, env=None):
        """Starts COMMAND here. The process is the command itself, so a kill meets nobody else."""
        clocks = ["--time", "--monotonic", str(self.ahead), "--boottime", str(self.ahead)] if self.ahead else []
        line = ["ip", "netns", "exec", self.space, "unshare", "--uts", *clocks, "sh", "-c",
                'hostname "$0" && exec "$@"', self.name] + [str(c) for c in command]
        popen = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True, errors="replace", env=dict(os.environ, **(env or {})),
            preexec_fn=tap.die_with_parent)
        program = Program("%s (%s)" % (os.path.basename(str(command[0])), self.name), popen)
        self.cluster.programs.append(program)
        return program

    def cut(self, ways=("in", "out")):
        """From now on nothing comes in, goes out, or both; nobody is told."""
        for way in ways:
            self.nft("add rule inet story %s %s eth0 drop" % (way, way[0] + "ifname"))

    def cut_from(self, *others):
        """The same, but only what comes from those hosts, or goes there."""
        for other in others:
            self.nft("add rule inet story in ip saddr %s drop" % other.address,
                     "add rule inet story out ip daddr %s drop" % other.address)

    def heal(self):
        self.nft("flush chain inet story in", "flush chain inet story out")


class Cluster:
    """with Cluster(4) as c: c[0].run(...)"""

    made = collections.Counter()

    def __init__(self, hosts):
        if not Cluster.made["all"]:
            sweep()
        Cluster.made["all"] += 1
        self.name = "dt%d-%d" % (os.getpid(), Cluster.made["all"])
        self.programs = []
        self.hosts = []
        self._size = hosts

    def __enter__(self):
        try:
            sh("ip", "netns", "add", self.name)
            sh("ip", "-n", self.name, "link", "add", "switch", "type", "bridge")
            sh("ip", "-n", self.name, "link", "set", "switch", "up")
            for number in range(self._size):
                self.hosts.append(Host(self, number))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __getitem__(self, number):
        return self.hosts[number]

    def __exit__(self, *_):
        for program in self.programs:
            if program.popen.poll() is None:
                program.popen.send_signal(signal.SIGCONT)
                program.popen.kill()
            program.popen.wait()
        for space in [self.name] + ["%s-%d" % (self.name, n) for n in range(self._size)]:
            delete(space)
