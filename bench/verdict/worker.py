# SPDX-License-Identifier: Apache-2.0
"""A worker of verdict.sh, without PyTorch.

worker.py hang THREADS      goes some steps, says when it stands still, and does so: rank 1 sleeps, the others wait
worker.py count SECONDS     computes for so long, and says how often it went round in a second of its processor time"""
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "packaging/wheel"))
from dtrun.progress import Progress  # noqa: E402

STEPS, STEP_SECONDS = 80, 0.1  # for as many seconds as dtrun needs to know how long a step takes
forever = threading.Event()


def say(word, number):
    """In one piece, as others write to the same file."""
    os.write(1, f"{word} {number}\n".encode())


def wait_at_depth(depth):
    if depth == 0:
        forever.wait()
    else:
        wait_at_depth(depth - 1)


def hang(threads):
    for _ in range(threads - 1):
        threading.Thread(target=wait_at_depth, args=(8,), daemon=True).start()
    page = Progress()
    for step in range(STEPS):
        time.sleep(STEP_SECONDS)
        page.update(step=step + 1)
    say("still", time.time())
    if os.environ["RANK"] == "1":
        time.sleep(10000)
    forever.wait()


def count(seconds):
    rounds, total, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for i in range(1000):
            total += i * i
        rounds += 1
    say("rounds", rounds / time.process_time())


if __name__ == "__main__":
    {"hang": hang, "count": count}[sys.argv[1]](int(sys.argv[2]))
