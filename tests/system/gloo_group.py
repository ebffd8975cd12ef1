# SPDX-License-Identifier: Apache-2.0
#
# A gloo process group on this machine whose members meet at a store that is already there, as the
# workers of an elastic agent do: four processes started from outside, none of which hosts the
# store. run() starts them and collects what each has to tell; a member is this file run as a
# program. A store carries one group: PyTorch 2.6 does not tell two on one store apart.

import datetime
import json
import os
import subprocess
import sys

import servers
import tap

SECONDS = 60


def environment(port, rank, world):
    return dict(
        os.environ,
        MASTER_ADDR=servers.HOST,
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank),
        TORCHELASTIC_USE_AGENT_STORE="True",
        TORCHELASTIC_RESTART_COUNT="0",
        GLOO_SOCKET_IFNAME="lo",
        OMP_NUM_THREADS="1",
    )


def run(port, world):
    """A dictionary of results for each rank, in order of rank."""
    members = [
        subprocess.Popen(
            [sys.executable, "-B", __file__],
            env=environment(port, rank, world),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=tap.die_with_parent,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        told = [m.communicate(timeout=2 * SECONDS) for m in members]
    finally:
        for m in members:
            m.kill()
            m.wait()
    for rank, (m, (_, complaint)) in enumerate(zip(members, told)):
        if m.returncode != 0:
            lines = [c for c in complaint.splitlines() if c and not c.startswith("frame #")]
            why = "\n".join(lines[-8:])
            raise AssertionError("rank %d, status %d: %s" % (rank, m.returncode, why))
    return [json.loads(out) for out, _ in told]


def take_part():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS))
    rank, world = dist.get_rank(), dist.get_world_size()

    mine = torch.tensor([float(rank + 1), 10.0**rank])
    total = mine.clone()
    dist.all_reduce(total)

    word = torch.tensor([42 if rank == world - 1 else 0])
    dist.broadcast(word, src=world - 1)

    parts = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
    dist.all_gather(parts, torch.tensor([rank * rank]))

    pids = [None] * world
    dist.all_gather_object(pids, os.getpid())

    halves = dist.new_group(ranks=list(range(world // 2)))
    half = torch.ones(1)
    if rank < world // 2:
        dist.all_reduce(half, group=halves)

    dist.barrier()
    told = {
        "pid": os.getpid(),
        "torch": torch.__version__,
        "mine": mine.tolist(),
        "all_reduce": total.tolist(),
        "broadcast": word.tolist(),
        "all_gather": [p.item() for p in parts],
        "pids": pids,
        "half": half.item(),
    }
    print(json.dumps(told), flush=True)
    # 2.6 now and then hangs in destroy_process_group, whatever the store.
    os._exit(0)


if __name__ == "__main__":
    take_part()
