# SPDX-License-Identifier: Apache-2.0
#
# torch_static.py --dtrun PROGRAM: static jobs of several nodes, some of them ours and some of them
# the real torchrun, with either as node 0. What the workers of all are told must fit together: each
# rank once, sizes alike, roles counted apart.

import argparse
import os
import tempfile

import servers
import tap
from agents import TORCHRUN, WHO, Agent

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

# Of 2.1 to 2.3 neither the store nor the greeting tells that its agent does as those before it did.
VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
UNTOLD = (2, 1) <= VERSION < (2, 4)

# A worker says who it is, and when all of its node have, it fails in as many attempts as $0 says.
WORKER = WHO + """
place=$1/$GROUP_RANK.$TORCHELASTIC_RESTART_COUNT
mkdir -p "$place/$LOCAL_RANK"
until [ "$(ls "$place" | wc -l)" -eq "$LOCAL_WORLD_SIZE" ]; do sleep 0.01; done
[ "$TORCHELASTIC_RESTART_COUNT" -ge "$0" ]
"""


class Node(Agent):
    """One agent, WORDS of a launcher."""

    def __init__(self, words, job, rank, nproc, role):
        self.nproc = nproc
        super().__init__(words + self.options(job, str(rank), str(nproc), role))

    def options(self, job, rank, nproc, role):
        """Either launcher has the same."""
        agent = ["--nnodes", job.size, "--node_rank", rank, "--nproc_per_node", nproc]
        agent += ["--role", role, "--rdzv_id", job.name, "--max_restarts", str(job.failures)]
        agent += ["--master_addr", servers.HOST, "--master_port", job.port]
        agent += ["--monitor_interval", "0.1"]
        # Python 3.11 does not find "none" among the streams of 1.13; all we read is stdout.
        agent += ["--redirects", "2", "--tee", "2"]
        return agent + ["--no_python", "sh", "-c", WORKER, str(job.failures), job.folder.name]

    def finish(self):
        super().finish()
        said = "".join(self.rest)
        for words in "waiting on exit barrier", "not waiting for the other nodes":
            tap.check_equal(words in said, False, "%r in what a node said" % words)


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
            for i, worker in enumerate(node.workers(nproc)):
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
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    ours = [parser.parse_args().dtrun]
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
