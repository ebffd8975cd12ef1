#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/comeback.sh: the model of bench/train.sh under DDP, which saves every so many steps and goes on from there.

    torch_train.py STEPS CHECKPOINT METRICS SAVE_EVERY        (under torchrun)

Rank 0 appends {"step": N} to METRICS after each step.
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))

import torch
import torch.distributed as dist
from torch_train import POSITIONS, VOCABULARY, Model, sharded


def save(path, step, model, optimizer):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".part")
    os.replace(path + ".part", path)


def main():
    steps, checkpoint, metrics, save_every = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model, optimizer = sharded("ddp", Model())
    done = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    ids = torch.randint(VOCABULARY, (4, POSITIONS + 1))
    for step in range(done + 1, steps + 1):
        optimizer.zero_grad(set_to_none=True)
        model(ids[:, :-1], ids[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if dist.get_rank() == 0:
            with open(metrics, "a", encoding="utf-8") as f:
                f.write(json.dumps({"step": step}) + "\n")
            if step % save_every == 0:
                save(checkpoint, step, model, optimizer)


if __name__ == "__main__":
    main()
