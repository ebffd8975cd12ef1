# SPDX-License-Identifier: Apache-2.0
"""torch_crowd.py AGENTS PORT PATIENCE: the agents of an elastic job at PyTorch's own rendezvous (c10d,
localhost), without workers: each a process of its own, forked when PyTorch has been imported. Prints the
seconds from their start until the last has finished its first rendezvous, or "never" when that takes
longer than PATIENCE. What torchrun does after it, the exchange of ranks, is not in it."""

import os
import signal
import sys
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

agents, port, patience = (int(word) for word in sys.argv[1:])


def parameters(is_host):
    return RendezvousParameters(
        backend="c10d",
        endpoint=f"localhost:{port}",
        run_id="crowd",
        min_nodes=agents,
        max_nodes=agents,
        is_host=is_host,
        timeout=600,
    )


def agent(start, done):
    os.read(start, 1)  # ends when all are there
    mine = parameters(False)
    backend, store = create_backend(mine)
    create_handler(store, backend, mine).next_rendezvous()
    os.write(done, b".")
    signal.pause()  # an agent stays, and beats


def give_up(signum, frame):
    print("never", flush=True)
    os._exit(0)  # of its pid namespace this is the first process: all others end with it


def main():
    start_here, start = os.pipe()
    done, done_there = os.pipe()
    children = []
    for _ in range(agents):
        child = os.fork()
        if child == 0:
            os.close(start)
            agent(start_here, done_there)
        children.append(child)
    store = create_backend(parameters(True))  # the server, while it is held
    time.sleep(1)
    began = time.monotonic()
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(patience)
    os.close(start)
    finished = 0
    while finished < agents:
        finished += len(os.read(done, agents))
    print(f"{time.monotonic() - began:.3f}", flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
    del store


main()
