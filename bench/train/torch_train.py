#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/train.sh: PyTorch training the same GPT-2, as fast as it can on CPUs. Prints one JSON line.

    torch_train.py single|ddp|zero1|fsdp --steps N --threads N      (ddp and the rest under torchrun)
"""
import argparse
import json
import math
import os
import resource
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, POSITIONS, VOCABULARY = 6, 384, 6, 256, 8192


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def sharded(mode, model):
    """The model and its optimizer, as MODE has them."""
    adamw = dict(lr=3e-4, weight_decay=0.1)
    if mode == "single":
        return model, torch.optim.AdamW(model.parameters(), fused=True, **adamw)
    if mode == "fsdp":
        import functools

        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
        model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))
        return model, torch.optim.AdamW(model.parameters(), **adamw)
    model = nn.parallel.DistributedDataParallel(model)
    if mode == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **adamw)
    return model, torch.optim.AdamW(model.parameters(), fused=True, **adamw)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode", choices=["single", "ddp", "zero1", "fsdp"])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.mode != "single":
        dist.init_process_group("gloo")
    torch.manual_seed(1)
    model, optimizer = sharded(a.mode, Model())
    ids = torch.randint(VOCABULARY, (a.batch, POSITIONS + 1))
    times = []
    for step in range(a.steps + 3):
        begun = time.monotonic()
        loss = model(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) if a.mode != "fsdp" else model.clip_grad_norm_(1.0)
        optimizer.step()
        loss.item()
        times.append((time.monotonic() - begun) * 1e3)
    assert math.isfinite(loss.item())
    if int(os.environ.get("RANK", 0)) == 0:
        print(
            json.dumps(
                {
                    "mode": a.mode,
                    "torch": torch.__version__,
                    "ms": statistics.median(times[3:]),
                    "least_ms": min(times[3:]),
                    "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            ),
            flush=True,
        )
    if a.mode != "single":
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
