# SPDX-License-Identifier: Apache-2.0
#
# torch_static.py --dtrun COMMAND: static jobs of several nodes, some of them ours and some of them
# the real torchrun, with either as node 0. What the workers of all are told must fit together: each
# rank once, sizes alike, roles counted apart.

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading

import servers
import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

# Of 2.1 to 2.3 neither the store nor the greeting tells that its agent does as those before it did.
VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
UNTOLD = (2, 1) <= VERSION < (2, 4)

TORCHRUN = [sys.executable, "-B", "-m", "torch.distributed.run"]

# A worker says who it is, and when all of its node have, it fails in as many attempts as $0 says.
WORKER = """
echo "{\\"rank\\": [$RANK, $WORLD_SIZE], \\"role\\": [$ROLE_RANK, $ROLE_WORLD_SIZE],\
 \\"group\\": [$GROUP_RANK, $GROUP_WORLD_SIZE], \\"master\\": \\"$MASTER_ADDR:$MASTER_PORT\\",\
 \\"round\\": $TORCHELASTIC_RESTART_COUNT}"
place=$1/$GROUP_RANK.$TORCHELASTIC_RESTART_COUNT
mkdir -p "$place/$LOCAL_RANK"
until [ "$(ls "$place" | wc -l)" -eq "$LOCAL_WORLD_SIZE" ]; do sleep 0.01; done
[ "$TORCHELASTIC_RESTART_COUNT" -ge "$0" ]
"""


class Node:
    """One agent, WORDS of a launcher. What it prints that is JSON is heard, a thing at a time."""

    def __init__(self, words, job, rank, nproc, role):
        self.nproc, self.heard, self.rest = nproc, [], []
        self.more = threading.Condition()
        self.process = subprocess.Popen(
            words + self.options(job, str(rank), str(nproc), role),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=tap.die_with_parent,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def options(self, job, rank, nproc, role):
        """Either launcher has the same."""
        agent = ["--nnodes", job.size, "--node_rank", rank, "--nproc_per_node", nproc]
        agent += ["--role", role, "--rdzv_id", job.name, "--max_restarts", str(job.failures)]
        agent += ["--master_addr", servers.HOST, "--master_port", job.port]
        agent += ["--monitor_interval", "0.1"]
        # Python 3.11 does not find "none" among the streams of 1.13; all we read is stdout.
        agent += ["--redirects", "2", "--tee", "2"]
        return agent + ["--no_python", "sh", "-c", WORKER, str(job.failures), job.folder.name]

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

    def hear(self):
        with self.more:
            if not self.more.wait_for(lambda: self.heard, 120):
                raise AssertionError("nothing heard: " + "".join(self.rest[-20:]))
            thing = self.heard.pop(0)
        if "ended" in thing:
            raise AssertionError("it ended: " + "".join(self.rest[-20:]))
        return thing

    def workers(self):
        """What they were told."""
        return sorted((self.hear() for _ in range(self.nproc)), key=lambda w: w["rank"])

    def finish(self):
        status = self.process.wait(120)
        self.reader.join()
        said = "".join(self.rest)
        tap.check_equal(status, 0, "status of a node, which said " + said[-2000:])
        for words in "waiting on exit barrier", "not waiting for the other nodes":
            tap.check_equal(words in said, False, "%r in what a node said" % words)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Job:
    """NODES: (words of its launcher, workers, role) of each, in order of rank."""

    def __init__(self, nodes, failures=0):
        self.name, self.size, self.port = "job-7", str(len(nodes)), str(servers.free_port())
        self.failures, self.shape = failures, nodes
        self.nodes, self.folder = [], tempfile.TemporaryDirectory()

    def run(self, order):
        if UNTOLD and self.shape[0][0] is TORCHRUN:
            raise tap.Skip("node 0 by PyTorch %s" % torch.__version__)
        try:
            for rank in order:
                words, nproc, role = self.shape[rank]
                self.nodes.append((rank, Node(words, self, rank, nproc, role)))
            self.nodes.sort(key=lambda n: n[0])
            for attempt in range(self.failures + 1):
                self.check(attempt)
            for _, node in self.nodes:
                node.finish()
        finally:
            for _, node in self.nodes:
                node.kill()
            self.folder.cleanup()

    def check(self, attempt):
        """Rank by rank, against a count done here."""
        size = sum(nproc for _, nproc, _ in self.shape)
        first, before = 0, {}
        for rank, node in self.nodes:
            _, nproc, role = self.shape[rank]
            role_size = sum(n for _, n, r in self.shape if r == role)
            for i, worker in enumerate(node.workers()):
                who = "attempt %d, node %d, local rank %d: " % (attempt, rank, i)
                wanted = {
                    "rank": [first + i, size],
                    "role": [before.get(role, 0) + i, role_size],
                    "group": [rank, len(self.shape)],
                    "master": "%s:%s" % (servers.HOST, self.port),
                    "round": attempt,
                }
                for what in wanted:
                    tap.check_equal(worker[what], wanted[what], who + what)
            first += nproc
            before[role] = before.get(role, 0) + nproc


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="COMMAND")
    ours = shlex.split(parser.parse_args().dtrun)
    tap.start()
    tap.comment("PyTorch %s" % torch.__version__)
    logs = tempfile.TemporaryDirectory()  # where launchers make folders that they leave
    os.environ["TMPDIR"] = logs.name

    two = [(ours, 2, "default"), (TORCHRUN, 3, "other")]
    alike = [(ours, 1, "default"), (TORCHRUN, 1, "default")]
    three = [(ours, 2, "a"), (TORCHRUN, 1, "b"), (ours, 3, "b")]
    tap.case("ours is node 0", lambda: Job(two).run([0, 1]))
    tap.case("torchrun is node 0", lambda: Job(two[::-1]).run([0, 1]))
    tap.case("torchrun is node 0 and comes last", lambda: Job(alike[::-1]).run([1, 0]))
    tap.case("ours is node 0 and comes last", lambda: Job(alike).run([1, 0]))
    tap.case("three nodes, roles across them", lambda: Job(three).run([2, 1, 0]))
    turned = three[1:] + three[:1]
    tap.case("three nodes of which torchrun is node 0", lambda: Job(turned).run([0, 1, 2]))
    for name, nodes in (("ours", two), ("torchrun", two[::-1])):
        tap.case("both begin again, %s is node 0" % name, lambda: Job(nodes, 1).run([0, 1]))
    tap.done()


if __name__ == "__main__":
    main()
