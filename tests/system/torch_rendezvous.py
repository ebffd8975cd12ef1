# SPDX-License-Identifier: Apache-2.0
#
# torch_rendezvous.py --server PROGRAM: real torchruns whose c10d rendezvous is a dtrun-rendezvous.
# They agree there as they do at a store of their own.

import argparse
import os
import sys
import tempfile

import mixed_job
import servers
import tap
from agents import TORCHRUN
from mixed_job import Job

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")


class Tests:
    def __init__(self, port):
        self.port = port

    def job(self, name, nodes, restarts=1):
        return Job(nodes, restarts, port=self.port, name=name)

    def two(self):
        with self.job("two", "2") as job:
            job.start("a", TORCHRUN, 2, "one")
            job.start("b", TORCHRUN, 3, "other")
            job.round()
            job.end()

    def begins_again(self):
        with self.job("again", "2") as job:
            job.start("a", TORCHRUN, 2)
            job.start("b", TORCHRUN, 2)
            job.round()
            for who in "a", "b":
                job.fail(who)
                job.round()
            job.end()

    def grows(self):
        with mixed_job.store_of_workers(), self.job("grows", "1:2") as job:
            job.start("a", TORCHRUN)
            job.round()
            job.start("b", TORCHRUN)
            job.round()
            job.end()

    def another_takes_its_place(self):
        """Any of them may die: none serves the rendezvous."""
        with mixed_job.store_of_workers(), self.job("place", "2") as job:
            job.start("a", TORCHRUN)
            job.start("b", TORCHRUN)
            job.round()
            job.agents.pop("a").kill()
            job.start("c", TORCHRUN)
            job.round()
            job.end()

    def two_jobs(self):
        with self.job("first", "2") as first, self.job("second", "2") as second:
            for name in "a", "b":
                first.start(name, TORCHRUN)
                second.start(name, TORCHRUN)
            first.round()
            second.round()
            first.end()
            second.end()

    def trains(self):
        with mixed_job.store_of_workers(), self.job("trains", "2", restarts=3) as job:
            job.train({"a": TORCHRUN, "b": TORCHRUN})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True, metavar="PROGRAM")
    program = parser.parse_args().server
    tap.start(600)
    tap.comment("PyTorch %s" % torch.__version__)
    logs = tempfile.TemporaryDirectory()  # where launchers make folders that they leave
    os.environ["TMPDIR"] = logs.name
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]

    with servers.daemon(program) as server:
        tests = Tests(server.port)
        tap.case("two agents", tests.two)
        tap.case("both begin again, twice", tests.begins_again)
        tap.case("one is joined by another", tests.grows)
        tap.case("one dies and another takes its place", tests.another_takes_its_place)
        tap.case("two jobs at one time", tests.two_jobs)
        tap.case("they train, through a crash", tests.trains)
    tap.done()


if __name__ == "__main__":
    main()
