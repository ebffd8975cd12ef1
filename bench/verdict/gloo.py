# SPDX-License-Identifier: Apache-2.0
"""gloo.py TIMEOUT: some all-reduces of PyTorch's gloo; then the last rank says that it stands still, and the others wait for it until gloo
gives up after so many seconds, and say when."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist


def say(word):
    """In one piece, as others write to the same file."""
    os.write(1, f"{word} {time.time()}\n".encode())


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
tensor = torch.ones(1000)
for step in range(20):
    dist.all_reduce(tensor)
    time.sleep(0.1)
if dist.get_rank() == dist.get_world_size() - 1:
    say("still")
    time.sleep(10000)
try:
    dist.all_reduce(tensor)
except RuntimeError:
    say("error")
    raise
