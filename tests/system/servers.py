# SPDX-License-Identifier: Apache-2.0
#
# Two servers that a test talks to in the same words: ours, and PyTorch's own as the reference. Each
# is a process that listens on a free port of loopback, says so, and is gone after the with block.

import random
import re
import signal
import socket
import subprocess
import sys
import threading

import tap

HOST = "127.0.0.1"

# PyTorch's server lives in whatever process constructs the store; it stays until stdin ends.
ORIGINAL = """
import datetime, sys
from torch.distributed import TCPStore
seconds = datetime.timedelta(seconds=30)
store = TCPStore("127.0.0.1", int(sys.argv[1]), None, True, seconds, wait_for_workers=False)
print("listening on 127.0.0.1:%d" % store.port, flush=True)
sys.stdin.read()
"""


class Server:
    def __init__(self, name, command, says_ready_on):
        self.name = name
        self.said = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            preexec_fn=tap.die_with_parent,
            text=True,
            **{says_ready_on: subprocess.PIPE}
        )
        self.output = getattr(self.process, says_ready_on)
        try:
            self.port = self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        # Read on, or a server that logs much would block on a full pipe.
        threading.Thread(target=self.read_the_rest, daemon=True).start()

    def wait_until_ready(self):
        for line in self.output:
            self.note(line)
            ready = re.search(r"listening on 127\.0\.0\.1:(\d+)", line)
            if ready:
                return int(ready.group(1))
        raise RuntimeError("%s ended before it was ready: %s" % (self.name, "".join(self.said)))

    def read_the_rest(self):
        for line in self.output:
            self.note(line)

    def note(self, line):
        self.said.append(line)
        del self.said[:-20]

    def stop(self):
        self.process.stdin.close()
        self.process.terminate()
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        early = self.process.poll()
        status = self.stop()
        fine = early is None and status in (0, -signal.SIGTERM)
        if kind or not fine:
            tap.comment("%s said: %s" % (self.name, "".join(self.said)))
        if not kind and not fine:
            when = "after SIGTERM" if early is None else "by itself"
            raise AssertionError("%s ended %s with status %d" % (self.name, when, status))


def daemon(program, port=0):
    """Ours, which is PROGRAM."""
    listen = ["--listen", "%s:%d" % (HOST, port), "--log-level", "info"]
    return Server("dtrun-rendezvous", [program] + listen, "stderr")


def original(port=0):
    command = [sys.executable, "-B", "-c", ORIGINAL, str(port)]
    return Server("PyTorch's server", command, "stdout")


_claims = []


def free_port():
    """As tests/lib/port.h: below the ports that the kernel gives out, and of this test alone."""
    for port in random.sample(range(20000, 29000), 1000):
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                claim.bind("\0dtrun-test-port-%d" % port)
                s.bind(("", port))
            except OSError:
                claim.close()
                continue
        _claims.append(claim)
        return port
    raise RuntimeError("no port is free")
