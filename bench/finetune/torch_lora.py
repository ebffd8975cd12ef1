#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/finetune.sh: PyTorch training LoRA adapters of the same Llama, as fast as it can on CPUs. Prints one JSON line.

    torch_lora.py lora|full --steps N --threads N
"""
import argparse
import json
import math
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, WIDTH, INNER, HEADS, KV_HEADS, POSITIONS, VOCABULARY, RANK = 8, 512, 1408, 8, 4, 512, 16384, 16
HEAD = WIDTH // HEADS


class Linear(nn.Module):
    """Frozen, with two small matrices beside it; or plain, and all of it trained."""

    def __init__(self, ins, outs, lora):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outs, ins) * 0.02, requires_grad=not lora)
        self.lora = lora
        if lora:
            self.a = nn.Parameter(torch.randn(RANK, ins) / math.sqrt(ins))
            self.b = nn.Parameter(torch.zeros(outs, RANK))

    def forward(self, x):
        y = F.linear(x, self.weight)
        return y + F.linear(F.linear(x, self.a), self.b) * 2 if self.lora else y


class Norm(nn.Module):
    def __init__(self, lora):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH), requires_grad=not lora)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    def __init__(self, lora):
        super().__init__()
        self.norm, self.post = Norm(lora), Norm(lora)
        self.q, self.o = Linear(WIDTH, WIDTH, lora), Linear(WIDTH, WIDTH, lora)
        self.k, self.v = (Linear(WIDTH, KV_HEADS * HEAD, lora) for _ in range(2))
        self.gate, self.up, self.down = Linear(WIDTH, INNER, lora), Linear(WIDTH, INNER, lora), Linear(INNER, WIDTH, lora)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.norm(x)
        q, k, v = (y.view(b, t, -1, HEAD).transpose(1, 2) for y in (self.q(h), self.k(h), self.v(h)))
        k, v = (y.repeat_interleave(HEADS // KV_HEADS, 1) for y in (rotate(k, cos, sin), v))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, WIDTH))
        h = self.post(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, lora):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(VOCABULARY, WIDTH) * 0.02, requires_grad=not lora)
        self.blocks = nn.ModuleList(Block(lora) for _ in range(LAYERS))
        self.norm = Norm(lora)
        angle = torch.arange(POSITIONS)[:, None] / 10000 ** (torch.arange(0, HEAD, 2) / HEAD)
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))

    def forward(self, ids, targets):
        x = F.embedding(ids, self.embed)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(F.linear(self.norm(x), self.embed).view(-1, VOCABULARY), targets.reshape(-1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode", choices=["lora", "full"])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Model(a.mode == "lora")
    trained = [x for x in model.parameters() if x.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, weight_decay=0, fused=True)
    ids = torch.randint(VOCABULARY, (a.batch, POSITIONS + 1))
    times = []
    for _ in range(a.steps + 3):
        begun = time.monotonic()
        loss = model(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        loss.item()
        times.append((time.monotonic() - begun) * 1e3)
    assert math.isfinite(loss.item())
    print(json.dumps({"mode": a.mode, "torch": torch.__version__, "ms": statistics.median(times[3:]),
                      "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
