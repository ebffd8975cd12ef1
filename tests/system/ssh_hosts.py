# SPDX-License-Identifier: Apache-2.0
#
# Hosts of a netns.Cluster that can be reached by real ssh: an sshd in each, with keys made for the
# test and nothing of this machine's own configuration. They are called by their addresses, since
# namespaces share /etc/hosts.

import os
import shutil
import signal
import subprocess
import time

import netns

PORT = 2222
SANITIZERS = ["ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"]
SSHD = "/usr/sbin/sshd"  # refuses to be started by another path than an absolute one


def why_not():
    if not os.path.exists(SSHD) or not shutil.which("ssh"):
        return "ssh and sshd are missing (packages openssh-client, openssh-server)"
    return netns.why_not()


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    with open(path + ".pub") as f:
        return " ".join(f.read().split()[:2])


def write(path, text, mode=0o600):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


class SshHosts:
    """with SshHosts(folder, 3) as s: s.terminal.run(..., env=s.env). The terminal is one host more, without sshd."""

    def __init__(self, folder, count):
        self.folder = folder
        self.count = count
        self.cluster = netns.Cluster(count + 1)
        self.servers = []

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _write_client(self, host_key):
        """An ssh in PATH that reads our configuration alone."""
        known = "".join("[%s]:%d %s\n" % (host.address, PORT, host_key) for host in self.hosts)
        write(self._path("known"), known)
        write(self._path("config"), "Port %d\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\n"
              "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n" % (
                  PORT, self._path("key"), self._path("known")))
        os.makedirs(self._path("bin"), exist_ok=True)
        write(self._path("bin/ssh"), "#!/bin/sh\nexec %s -F %s \"$@\"\n" % (
            shutil.which("ssh"), self._path("config")), 0o755)
        self.env = {"PATH": self._path("bin") + ":" + os.environ["PATH"]}

    def _write_server(self, user_key):
        write(self._path("authorized"), user_key + "\n")
        # A bash that is not the first one leaves the files of the user alone, which may do anything and take any time.
        variables = ["SHLVL=1"] + ["%s=%s" % (name, os.environ[name]) for name in SANITIZERS if name in os.environ]
        write(self._path("sshd_config"), "Port %d\nHostKey %s\nPidFile none\nUsePAM no\nStrictModes no\nSetEnv %s\n"
              "AuthorizedKeysFile %s\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n" % (
                  PORT, self._path("host_key"), " ".join(variables), self._path("authorized")))

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.hosts = self.cluster.hosts[:self.count]
            self.terminal = self.cluster[self.count]
            self.names = [host.address for host in self.hosts]
            self._write_client(make_key(self._path("host_key")))
            self._write_server(make_key(self._path("key")))
            os.makedirs("/run/sshd", exist_ok=True)
            for host in self.hosts:
                server = host.run(SSHD, "-D", "-e", "-f", self._path("sshd_config"))
                self.servers.append(server)
            for server in self.servers:
                server.expect("listening on 0.0.0.0")
        except BaseException:
            self.__exit__()
            raise
        return self

    def processes(self, host):
        """All that run on HOST, but its sshd."""
        own = {server.popen.pid for server in self.servers}
        out = subprocess.run(["ip", "netns", "pids", host.space], stdout=subprocess.PIPE, universal_newlines=True,
                             check=True).stdout
        return [int(pid) for pid in out.split() if int(pid) not in own]

    def wait_until_empty(self, hosts=None):
        """Until nothing is left of a job."""
        deadline = time.monotonic() + netns.PATIENCE
        for host in hosts or self.hosts:
            while self.processes(host):
                if time.monotonic() > deadline:
                    raise AssertionError("left on %s: %s" % (host.address, "; ".join(
                        command_line(pid) for pid in self.processes(host))))
                time.sleep(0.02)

    def __exit__(self, *_):
        for host in self.cluster.hosts:
            for pid in self.processes(host):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.cluster.__exit__()


def command_line(pid):
    """As /proc shows it, or "" when it has gone."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
