# SPDX-License-Identifier: Apache-2.0
#
# Agents, ours and real ones, of jobs that a test looks into: a process each, and what it and its
# workers print, heard as it comes.

import json
import subprocess
import sys
import threading

import tap

TORCHRUN = [sys.executable, "-B", "-m", "torch.distributed.run"]

# What a worker says of itself, in the words of a shell.
WHO = """
echo "{\\"rank\\": [$RANK, $WORLD_SIZE], \\"role\\": [$ROLE_RANK, $ROLE_WORLD_SIZE],\
 \\"group\\": [$GROUP_RANK, $GROUP_WORLD_SIZE], \\"master\\": \\"$MASTER_ADDR:$MASTER_PORT\\",\
 \\"round\\": $TORCHELASTIC_RESTART_COUNT}"
"""


class Agent:
    """WORDS of a launcher with all of its options. What it prints that is JSON is heard, a thing at
    a time; the rest is kept."""

    def __init__(self, words):
        self.heard, self.rest = [], []
        self.more = threading.Condition()
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=tap.die_with_parent,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.more:
                if line.startswith("{"):
                    self.heard.append(json.loads(line))
                else:
                    self.rest.append(line)
                self.more.notify()
        with self.more:
            self.heard.append({"ended": True})
            self.more.notify()

    def said(self):
        return "".join(self.rest)[-3000:]

    def hear(self):
        with self.more:
            if not self.more.wait_for(lambda: self.heard, 120):
                raise AssertionError("nothing heard: " + self.said())
            thing = self.heard.pop(0)
        if "ended" in thing:
            raise AssertionError("it ended: " + self.said())
        return thing

    def workers(self, count):
        """What that many were told, in order of rank."""
        return sorted((self.hear() for _ in range(count)), key=lambda w: w["rank"])

    def finish(self, status=0):
        """Waits for its end."""
        try:
            got = self.process.wait(180)  # torchruns take their time, the more so beside other tests
        except subprocess.TimeoutExpired:
            raise AssertionError("it does not end: " + self.said())
        self.reader.join()
        tap.check_equal(got, status, "status of an agent, which said " + self.said())

    def kill(self):
        self.process.kill()
        self.process.wait()
