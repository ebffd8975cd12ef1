# SPDX-License-Identifier: Apache-2.0
#
# torch_timer.py --host PROGRAM: PyTorch's own client of file timers against our watchdog. The host
# runs this file again as the worker that sets the timers.

import argparse
import os
import subprocess
import sys
import time

import tap

FOREVER = 600  # a worker that sleeps so long is to be ended by the watchdog


def work(story):
    import torch.distributed.elastic.timer as timer

    timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
    if story == "late":
        with timer.expires(after=0.2, scope="too slow"):
            time.sleep(FOREVER)
    elif story == "in time":
        with timer.expires(after=60):
            pass
    elif story == "nested":
        with timer.expires(after=60, scope="outer"):
            with timer.expires(after=0.2, scope="inner"):
                time.sleep(FOREVER)
    sys.exit(7)


def told(host, story):
    command = [host, sys.executable, "-B", os.path.abspath(__file__), "--worker", story]
    run = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=tap.die_with_parent)
    tap.check_equal(run.returncode, 0, "exit status of the host")
    return run.stdout.decode().splitlines()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", metavar="PROGRAM")
    parser.add_argument("--worker", metavar="STORY")
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
    tap.start()
    try:
        from torch.distributed.elastic.timer import FileTimerClient  # noqa: F401
    except ImportError:
        tap.skip_all("this PyTorch has no file timers")

    def expect(story, lines):
        tap.case(story, lambda: tap.check_equal(told(arguments.host, story), lines, "the host says"))

    expect("in time", ["exited with 7"])
    expect("late", ["expired too slow signal 9", "ended by signal 9"])
    expect("nested", ["expired inner signal 9", "ended by signal 9"])
    tap.done()


if __name__ == "__main__":
    main()
