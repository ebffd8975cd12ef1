# SPDX-License-Identifier: Apache-2.0
#
# elastic_clocks.py --dtrun COMMAND ...: jobs on four hosts whose clocks, but for that of the wall, are days apart: since when a
# worker stands still, and who failed first, is compared across hosts.

import re
import subprocess
import sys

import elastic
import tap
from elastic import story

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")
if subprocess.run(["unshare", "--time", "--monotonic", "1", "true"], stderr=subprocess.DEVNULL).returncode != 0:
    tap.skip_all("the kernel makes no namespaces of time for us")

DAY = 86400
AHEAD = (0, 3 * DAY, DAY, 7 * DAY)

# Rank 2 is the one that is to blame. It cuts the others' connections by itself: of a PyTorch that is to close them some wait for
# the other side for ever.
SCRIPT = """import os
import signal
import socket
import sys
import time
import traceback
if os.environ["RANK"] == "2" and sys.argv[1] == "fails":  # in all threads to come: the others' end is to find it alive
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
import torch
import torch.distributed as dist

print("clock %d" % time.monotonic(), flush=True)
dist.init_process_group("gloo")
for step in range(4):
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 2 and sys.argv[1] == "hangs":
    time.sleep(1000)  # HANGS
if dist.get_rank() == 2:
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            s = socket.socket(fileno=os.dup(fd))
            if s.family != socket.AF_UNIX and s.getpeername():
                s.shutdown(socket.SHUT_RDWR)  # the others fail of that at once
            s.close()
        except OSError:
            pass
    time.sleep(0.5)
    try:
        {}["labels"]  # FAILS
    except KeyError:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
dist.all_reduce(torch.ones(4))
"""


def place(mark):
    return "train.py:%d" % (1 + [line.endswith(mark) for line in SCRIPT.splitlines()].index(True))


def job(s, what, *options):
    """Four nodes with a rank each; the rendezvous is on a host of its own."""
    for host, ahead in zip(s.cluster.hosts, AHEAD):
        host.ahead = ahead
    s.serve(4)
    with open(s.path("train.py"), "w", encoding="utf-8") as f:
        f.write(SCRIPT)
    agents = [s.agent(number, "--shutdown-timeout", "60", *options, at=4, nnodes="4",
                      command=("--no-python", sys.executable, s.path("train.py"), what)) for number in range(4)]
    clocks = [int(agent.reads(r"clock (\d+)").group(1)) for agent in agents]
    tap.check_equal(max(clocks) - min(clocks) > 6 * DAY, True, "the clocks differ: %r" % clocks)
    return agents


def same(agents, pattern):
    said = [agent.reads(pattern).group(1) for agent in agents]
    tap.check_equal(len(set(said)), 1, "different sentences: %r" % said)


@story(hosts=5)
def hang(s):
    """a hang is found within seconds, and all terminals say the same"""
    agents = job(s, "hangs", "--hang-after", "3")
    same(agents, r"(the job has stood still for [3-9] s: rank 2 sleeps at .*%s; ranks 0, 1 and 3 wait in all_reduce .*)" %
         re.escape(place("# HANGS")))
    for agent in agents:
        agent.kill()


@story(hosts=5)
def cause(s):
    """the one cause is that of the rank that failed last"""
    agents = job(s, "fails", "--max-restarts", "0")
    same(agents, r"root cause: (.*rank 2 raised an exception at %s: KeyError.*)" % re.escape(place("# FAILS")))
    for agent in agents:
        agent.ends(1)


tap.comment("PyTorch %s" % torch.__version__)
elastic.main()
