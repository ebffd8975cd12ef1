# SPDX-License-Identifier: Apache-2.0
"""Times the all-reduce of PyTorch's gloo backend, as coll_bench does: a row for each size, or the
milliseconds from a kill -9 to the error of the last survivor.

gloo_bench.py RANKS REPEATS [DEATHS]"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time

import torch
import torch.distributed as dist

SIZES = ((4 << 10, 200), (256 << 10, 50), (4 << 20, 10), (64 << 20, 2))


def join(rank, ranks, meeting):
    torch.set_num_threads(1)
    store = dist.FileStore(meeting, ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)


def time_sizes(rank, ranks, meeting, repeats):
    join(rank, ranks, meeting)
    for size, turns in SIZES:
        v = torch.zeros(size // 4)
        best = 1e9
        for _ in range(repeats):
            dist.barrier()
            start = time.monotonic()
            for _ in range(turns):
                dist.all_reduce(v)
            took = torch.tensor((time.monotonic() - start) / turns, dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            best = min(best, took.item())
        if rank == 0:
            print(f"{size} {best * 1e6:.3f}", flush=True)


def survive(rank, ranks, meeting, turns, told):
    join(rank, ranks, meeting)
    v = torch.zeros(1 << 20)
    try:
        while True:
            dist.all_reduce(v)
            if rank == 0:
                turns.value += 1
    except RuntimeError:
        told[rank] = time.monotonic()
        os._exit(0)  # the others of gloo's threads may never end


def start(ranks, target, *args):
    processes = [multiprocessing.Process(target=target, args=(r, ranks, *args)) for r in range(ranks)]
    for p in processes:
        p.start()
    return processes


def kill_one(ranks, meeting):
    turns = multiprocessing.Value("i", 0)
    told = multiprocessing.Array("d", ranks)
    processes = start(ranks, survive, meeting, turns, told)
    while turns.value < 10:
        time.sleep(0.001)
    killed = time.monotonic()
    os.kill(processes[-1].pid, signal.SIGKILL)
    for p in processes:
        p.join()
    print(f"{(max(told) - killed) * 1e3:.3f}", flush=True)


def main():
    ranks, repeats = int(sys.argv[1]), int(sys.argv[2])
    deaths = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(deaths):
            kill_one(ranks, f"{folder}/meeting-{i}")
        if deaths == 0:
            for p in start(ranks, time_sizes, f"{folder}/meeting", repeats):
                p.join()
                if p.exitcode != 0:
                    sys.exit("gloo_bench.py: a rank failed")


main()
