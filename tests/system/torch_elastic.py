# SPDX-License-Identifier: Apache-2.0
#
# torch_elastic.py --dtrun PROGRAM: elastic jobs that a real torchrun serves, with ours among its
# agents. What the workers of all are told must fit together in each round; nodes come, begin again
# and go, and the job goes on as if all were torchrun's.

import argparse
import os
import signal
import sys
import tempfile

import mixed_job
import tap
from agents import TORCHRUN
from mixed_job import Job

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
FIRST = ["--local_addr", "127.0.0.1"]  # sorts before what torchrun finds out about itself


def job(nodes, restarts=1):
    """One that "theirs", a torchrun, serves."""
    return Job(nodes, restarts, host="theirs")


class Tests:
    def __init__(self, ours):
        self.ours = ours

    def two(self):
        with job("2") as j:
            j.start("theirs", TORCHRUN, 2)
            j.start("ours", self.ours, 3, "other")
            j.round()
            j.end()

    def ours_waits_for_theirs(self):
        with job("2") as j:
            j.start("ours", self.ours, 2)
            j.start("theirs", TORCHRUN, 2)
            j.round()
            j.end()

    def ours_is_first(self):
        with job("2") as j:
            j.start("theirs", TORCHRUN, 2)
            j.start("ours", self.ours, 2, extra=FIRST)
            j.round("ours", "theirs")
            j.end()

    def three(self):
        with job("3") as j:
            j.start("theirs", TORCHRUN, 2, "a")
            j.start("ours", self.ours, 3, "b")
            j.start("others", TORCHRUN, 1, "a")
            j.round()
            j.end()

    def begins_again(self, who, extra):
        with job("2") as j:
            j.start("theirs", TORCHRUN, 2)
            j.start("ours", self.ours, 2, extra=extra)
            j.round()
            j.fail(who)
            j.round()
            j.end()

    def three_begin_again(self):
        with job("3", restarts=2) as j:
            j.start("theirs", TORCHRUN)
            j.start("others", TORCHRUN)
            j.start("ours", self.ours, 1, extra=FIRST)
            master = j.round()
            for who in "ours", "others":
                j.fail(who)
                now = j.round()
                if VERSION >= (2, 4):  # before, worker 0 opens the store, elsewhere each time
                    tap.check_equal(now, master, "where workers meet")
            j.end()

    def ours_joins_later(self):
        with job("1:2") as j:
            j.start("theirs", TORCHRUN, 2)
            j.round()
            j.start("ours", self.ours, 2)
            j.round()
            j.end()

    def ours_goes_and_another_comes(self):
        """What leaves does not end the job, as it does when a torchrun of 2.6 is told to end."""
        with job("1:2") as j:
            j.start("theirs", TORCHRUN)
            j.start("ours", self.ours)
            # The first may have begun alone.
            if j.agents["theirs"].hear()["group"][1] == 1:
                j.round()
            else:
                j.agents["ours"].hear()
            gone = j.agents.pop("ours")
            gone.process.send_signal(signal.SIGTERM)
            gone.finish(1)
            j.start("another", self.ours)
            j.round()
            j.end()

    def theirs_dies(self):
        """Torchrun's own agents would not notice."""
        with job("2:3") as j:
            j.start("theirs", TORCHRUN)
            j.start("ours", self.ours)
            j.start("others", TORCHRUN)
            while j.agents["ours"].hear()["group"][1] < 3:
                pass
            others = j.agents.pop("others")
            for name in "theirs", "others":
                agent = j.agents.get(name, others)
                while agent.hear()["group"][1] < 3:
                    pass
            others.kill()
            j.round()
            j.end()

    def trains(self):
        with mixed_job.store_of_workers(), job("2", restarts=3) as j:
            j.train({"theirs": TORCHRUN, "ours": self.ours})

    def trains_where_ours_is_first(self):
        """The workers' store is ours then, and new in each round."""
        with job("2", restarts=3) as j:
            j.train({"theirs": TORCHRUN, "ours": self.ours + FIRST})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    tests = Tests([parser.parse_args().dtrun])
    tap.start(600)
    tap.comment("PyTorch %s" % torch.__version__)
    if (2, 1) <= VERSION < (2, 4):
        tap.skip_all("agents of PyTorch %s cannot be told from others" % torch.__version__)
    logs = tempfile.TemporaryDirectory()  # where launchers make folders that they leave
    os.environ["TMPDIR"] = logs.name
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]

    tap.case("theirs and ours", tests.two)
    tap.case("ours waits for theirs", tests.ours_waits_for_theirs)
    tap.case("ours is the first node", tests.ours_is_first)
    tap.case("two of theirs and ours", tests.three)
    for who in "theirs", "ours":
        tap.case("a worker of %s fails" % who, lambda: tests.begins_again(who, ()))
        tap.case("... where ours is the first node", lambda: tests.begins_again(who, FIRST))
    tap.case("three begin again, twice", tests.three_begin_again)
    tap.case("ours joins later", tests.ours_joins_later)
    tap.case("ours goes, and another comes", tests.ours_goes_and_another_comes)
    tap.case("one of theirs dies", tests.theirs_dies)
    tap.case("they train together, through a crash", tests.trains)
    tap.case("... where ours is the first node", tests.trains_where_ours_is_first)
    tap.done()


if __name__ == "__main__":
    main()
