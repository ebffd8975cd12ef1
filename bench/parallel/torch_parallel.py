#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/parallel.sh: PyTorch training the same Llama, its work shared among ranks. Prints one JSON line.

    torch_parallel.py single|data|tensor|pipeline --steps N      (but for single under torchrun, a thread in each rank)
"""
import argparse
import contextlib
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

FIRST = 5  # blocks of the first stage of a pipeline, as dtrun-train has them
LAYERS, WIDTH, INNER, HEADS, KV_HEADS, POSITIONS, VOCABULARY, BATCH = 8, 512, 1408, 8, 4, 512, 16384, 4
HEAD = WIDTH // HEADS


def linear(ins, outs):
    return nn.Linear(ins, outs, bias=False)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    """A rank that shares it has some of the heads and some of the inner width."""

    def __init__(self):
        super().__init__()
        self.norm, self.post = Norm(), Norm()
        self.q, self.o = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.k, self.v = linear(WIDTH, KV_HEADS * HEAD), linear(WIDTH, KV_HEADS * HEAD)
        self.gate, self.up, self.down = linear(WIDTH, INNER), linear(WIDTH, INNER), linear(INNER, WIDTH)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.norm(x)
        q, k, v = (y.view(b, t, -1, HEAD).transpose(1, 2) for y in (self.q(h), self.k(h), self.v(h)))
        k, v = (y.repeat_interleave(HEADS // KV_HEADS, 1) for y in (rotate(k, cos, sin), v))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, -1))
        h = self.post(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), linear(WIDTH, VOCABULARY)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.head.weight = self.embed.weight
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        angle = torch.arange(POSITIONS)[:, None] / 10000 ** (torch.arange(0, HEAD, 2) / HEAD)
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))

    def forward(self, ids, targets):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.reshape(-1))


class Stage(nn.Module):
    """Of a pipeline of two: the first has the embedding, the last the head."""

    def __init__(self, model, last):
        super().__init__()
        self.last = last
        self.words = model.head if last else model.embed
        self.norm = model.norm if last else nn.Identity()
        self.blocks = model.blocks[FIRST:] if last else model.blocks[:FIRST]
        self.register_buffer("cos", model.cos)
        self.register_buffer("sin", model.sin)

    def forward(self, x):
        x = x if self.last else self.words(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.words(self.norm(x)) if self.last else x


class Pipeline:
    """Trains as a model does: a step is a micro-batch for each sample, by GPipe."""

    def __init__(self, part):
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        self.part = part
        self.schedule = ScheduleGPipe(PipelineStage(part, dist.get_rank(), 2, torch.device("cpu")), BATCH, loss_fn=self.loss)

    @staticmethod
    def loss(logits, targets):
        return F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1)) / BATCH

    def step(self, ids, targets):
        losses = []
        if self.part.last:
            self.schedule.step(target=targets, losses=losses)
        else:
            self.schedule.step(ids)
        dist.all_reduce(self.part.words.weight.grad)
        return torch.stack(losses).sum().detach() if losses else torch.zeros(())


def shared(mode, model):
    """The model as MODE has it; with tensors, words are cut, too, as they are in dtrun-train."""
    if mode == "pipeline":
        return Stage(model, dist.get_rank() == 1)
    if mode == "data":
        return nn.parallel.DistributedDataParallel(model)
    if mode == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        columns, rows = "q k v gate up".split(), "o down".split()
        plan = {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}}
        for block in model.blocks:
            parallelize_module(block, mesh, plan)
        parallelize_module(model, mesh, {"embed": RowwiseParallel(input_layouts=Replicate()),
                                         "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
        model.head.weight = model.embed.weight
    return model


def across(mode):
    """What the loss is computed within, forward and backward."""
    if mode != "tensor":
        return contextlib.nullcontext()
    from torch.distributed.tensor.parallel import loss_parallel

    return loss_parallel()


def parts(mode, model):
    """Parameters that this rank has a part of, or alone, and those that all ranks have."""
    if mode == "pipeline":
        return [p for p in model.parameters() if p is not model.words.weight], [model.words.weight]
    cut = [p for p in model.parameters() if hasattr(p, "to_local")]
    return cut, [p for p in model.parameters() if not hasattr(p, "to_local")]


def clip(cut, whole):
    """The norm is that of all parts, and of one copy of what is whole."""
    grads = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in cut]
    square = torch.stack([g.pow(2).sum() for g in grads]).sum() if grads else torch.zeros(())
    if grads:
        dist.all_reduce(square)
    norm = (square + torch.stack([p.grad.pow(2).sum() for p in whole]).sum()).sqrt()
    torch._foreach_mul_(grads + [p.grad for p in whole], min(1.0, 1.0 / (norm.item() + 1e-6)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode", choices=["single", "data", "tensor", "pipeline"])
    p.add_argument("--steps", type=int, default=20)
    a = p.parse_args()
    torch.set_num_threads(1)
    if a.mode != "single":
        dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = shared(a.mode, Model())
    cut, whole = parts(a.mode, model)
    pipeline = Pipeline(model) if a.mode == "pipeline" else None
    optimizers = [torch.optim.AdamW(of, lr=3e-4, weight_decay=0.1, fused=True) for of in (cut, whole) if of]
    torch.manual_seed(2 if a.mode != "data" else 2 + dist.get_rank())
    ids = torch.randint(VOCABULARY, (BATCH // 2 if a.mode == "data" else BATCH, POSITIONS + 1))
    times, losses = [], []
    for _ in range(a.steps + 3):
        begun = time.monotonic()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with across(a.mode):
            loss = pipeline.step(ids[:, :-1], ids[:, 1:]) if pipeline else model(ids[:, :-1], ids[:, 1:])
            if not pipeline:
                loss.backward()
        clip(cut, whole)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
        times.append((time.monotonic() - begun) * 1e3)
    assert math.isfinite(losses[-1])
    if int(os.environ.get("RANK", 0)) == (1 if pipeline else 0):
        print(json.dumps({"mode": a.mode, "torch": torch.__version__, "ms": statistics.median(times[3:]), "losses": losses[:3],
                          "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)
    if a.mode != "single":
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
