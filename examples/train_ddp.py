# SPDX-License-Identifier: Apache-2.0
#
# A small and whole PyTorch training script: data parallel over gloo, a checkpoint each step, and
# going on from it after a failure. It knows nothing of dtrun; torchrun runs it as well:
#
#   dtrun --nproc-per-node 2 --max-restarts 1 examples/train_ddp.py --crash-at 12
#
# --crash-at K lets the last rank fail at step K of the first attempt, as a lesson.

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


def load(path, model, optimizer):
    """The step to go on with."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save(path, step, model, optimizer):
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def batch(step, rank):
    """The same for a step and a rank whichever attempt asks: y = sum of x."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
    return x, x.sum(1, keepdim=True)


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpoint", help="default: a file of this run in the temporary folder")
    parser.add_argument("--crash-at", type=int, default=-1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    run = "train_ddp_%s.pt" % os.environ["TORCHELASTIC_RUN_ID"]
    path = options.checkpoint or os.path.join(tempfile.gettempdir(), run)

    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = load(path, model, optimizer)
    ddp = DistributedDataParallel(model)
    for step in range(first, options.steps):
        if step == options.crash_at and attempt == 0 and rank == world - 1:
            raise RuntimeError("rank %d fails at step %d, as asked" % (rank, step))
        x, y = batch(step, rank)
        loss = torch.nn.functional.mse_loss(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss)
        if rank == 0:
            save(path, step + 1, model, optimizer)
            if step in (first, options.steps - 1) or step % 100 == 0:
                print("attempt %d, step %2d of %d on %d ranks: loss %.6f"
                      % (attempt, step, options.steps, world, loss.item() / world), flush=True)
        dist.barrier()  # nobody computes on while the checkpoint of this step is not there
    dist.destroy_process_group()
    if rank == 0 and not options.checkpoint:
        os.remove(path)


if __name__ == "__main__":
    main()
