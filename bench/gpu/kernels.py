#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's times for the ops of bench/gpu_kernels.c: kernels.py [--rounds N] [--toy] < LINES

Each line of JSON that gpu_kernels printed comes back with "torch_ms": the least of what eager PyTorch and, where several of its
kernels make one op of ours, torch.compile take. Its backward passes are timed alone. An op that PyTorch has no equal of comes back
without."""
import argparse
import json
import statistics
import sys

import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TYPES = {"bfloat16": torch.bfloat16, "float": torch.float32}


def timed(call, rounds, toy):
    """Milliseconds of call(): the median of rounds of a tenth of a second, by events of the GPU."""

    def once(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls

    if toy:
        call()
        return 0.0
    for _ in range(3):
        call()
    calls = max(3, min(2000, int(100 / max(once(3), 1e-3))))
    return statistics.median(once(calls) for _ in range(rounds))


def backward_of(outputs, inputs, grads):
    """A call that does the backward pass of a graph that is kept."""

    def call():
        torch.autograd.grad(outputs, inputs, grads, retain_graph=True)

    return call


class Ops:
    """One method for an op's name, which gives what to time: one call, or several of which the least counts."""

    def __init__(self, row, compiles):
        self.row = row
        self.type = TYPES[row["elem"]]
        self.compiles = compiles

    def random(self, *shape, grad=False, dtype=None):
        return torch.rand(shape, device=DEVICE, dtype=torch.float32).mul_(2).sub_(1).to(dtype or self.type).requires_grad_(grad)

    def ids(self, n, below):
        return torch.randint(below, (n,), device=DEVICE)

    def both(self, f, *args):
        """f in eager mode, and compiled."""
        calls = [lambda: f(*args)]
        if self.compiles:
            fast = torch.compile(f)
            calls.append(lambda: fast(*args))
        return calls

    def both_backward(self, f, inputs, grads):
        calls = [backward_of(f(*inputs), inputs, grads)]
        if self.compiles:
            calls.append(backward_of(torch.compile(f)(*inputs), inputs, grads))
        return calls

    def copy(self, n):
        x, y = self.random(n), self.random(n)
        return [lambda: y.copy_(x)]

    def cast(self, n):
        x, y = self.random(n, dtype=torch.float32), self.random(n)
        return [lambda: y.copy_(x)]

    def add(self, n):
        x, y = self.random(n), self.random(n)
        return [lambda: y.add_(x)]

    def embedding_forward(self, rows, positions, width, vocabulary):
        ids, token, position = self.ids(rows, vocabulary), self.random(vocabulary, width), self.random(positions, width)
        at = torch.arange(rows, device=DEVICE) % positions
        return self.both(lambda t, p: F.embedding(ids, t) + F.embedding(at, p), token, position)

    def embedding_backward(self, rows, positions, width, vocabulary):
        ids = self.ids(rows, vocabulary)
        token, position = self.random(vocabulary, width, grad=True), self.random(positions, width, grad=True)
        at = torch.arange(rows, device=DEVICE) % positions
        return self.both_backward(
            lambda t, p: F.embedding(ids, t) + F.embedding(at, p), (token, position), self.random(rows, width))

    def norm(self, kind, width, grad):
        weight = self.random(width, grad=grad)
        if kind == "layer_norm":
            bias = self.random(width, grad=grad)
            return lambda x, w, b: F.layer_norm(x, (width,), w, b, 1e-5), (weight, bias)
        return lambda x, w: F.rms_norm(x, (width,), w, 1e-5), (weight,)

    def norm_forward(self, kind, rows, width):
        norm, weights = self.norm(kind, width, False)

        def summed(x, add, *w):
            s = x + add
            return s, norm(s, *w)

        return self.both(summed, self.random(rows, width), self.random(rows, width), *weights)

    def norm_backward(self, kind, rows, width):
        norm, weights = self.norm(kind, width, True)
        return self.both_backward(norm, (self.random(rows, width, grad=True), *weights), self.random(rows, width))

    def head_norm_forward(self, rows, heads, head_dim):
        return self.both(lambda x, w: F.rms_norm(x, (head_dim,), w, 1e-6), self.random(rows, heads, head_dim), self.random(head_dim))

    def head_norm_backward(self, rows, heads, head_dim):
        weights = (self.random(rows, heads, head_dim, grad=True), self.random(head_dim, grad=True))
        return self.both_backward(lambda x, w: F.rms_norm(x, (head_dim,), w, 1e-6), weights, self.random(rows, heads, head_dim))

    def rope(self, rows, positions, heads, head_dim):
        x, half = self.random(rows // positions, positions, heads, head_dim), head_dim // 2
        angle = torch.arange(positions, device=DEVICE)[:, None] * 10000.0 ** (-torch.arange(half, device=DEVICE) / half)
        cosine, sine = angle.cos()[:, None, :], angle.sin()[:, None, :]

        def rotate(v):
            a, b = v[..., :half].float(), v[..., half:].float()
            return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(v.dtype)

        return self.both(rotate, x)

    def gelu_forward(self, n):
        return self.both(lambda x: F.gelu(x, approximate="tanh"), self.random(n))

    def gelu_backward(self, n):
        return self.both_backward(lambda x: F.gelu(x, approximate="tanh"), (self.random(n, grad=True),), self.random(n))

    def swiglu_forward(self, n):
        return self.both(lambda g, u: F.silu(g) * u, self.random(n), self.random(n))

    def swiglu_backward(self, n):
        return self.both_backward(
            lambda g, u: F.silu(g) * u, (self.random(n, grad=True), self.random(n, grad=True)), self.random(n))

    def weights(self, row_in, row_out, bias, grad):
        return self.random(row_out, row_in, grad=grad), self.random(row_out, grad=grad) if bias else None

    def linear_forward(self, rows, bias, **size):
        w, b = self.weights(size["in"], size["out"], bias, False)
        x = self.random(rows, size["in"])
        return [lambda: F.linear(x, w, b)]

    def linear_gelu_forward(self, rows, bias, **size):
        w, b = self.weights(size["in"], size["out"], bias, False)
        x = self.random(rows, size["in"])

        def both(v):
            pre = F.linear(v, w, b)
            return pre, F.gelu(pre, approximate="tanh")

        return self.both(both, x)

    def linear_backward(self, rows, bias, **size):
        w, b = self.weights(size["in"], size["out"], bias, True)
        inputs = [self.random(rows, size["in"], grad=True), w] + ([b] if bias else [])
        return [backward_of(F.linear(inputs[0], w, b), inputs, self.random(rows, size["out"]))]

    def heads(self, batch, positions, heads, kv_heads, head_dim, grad):
        def one(n):
            return self.random(batch, positions, n, head_dim).transpose(1, 2).detach().requires_grad_(grad)

        q, k, v = one(heads), one(kv_heads), one(kv_heads)
        return q, k, v, dict(is_causal=True, enable_gqa=heads != kv_heads)

    def attention_forward(self, **shape):
        q, k, v, how = self.heads(grad=False, **shape)
        return [lambda: F.scaled_dot_product_attention(q, k, v, **how)]

    def attention_backward(self, **shape):
        q, k, v, how = self.heads(grad=True, **shape)
        out = F.scaled_dot_product_attention(q, k, v, **how)
        return [backward_of(out, (q, k, v), torch.rand_like(out))]

    def cross_entropy(self, rows, vocabulary):
        logits, targets = self.random(rows, vocabulary, grad=True), self.ids(rows, vocabulary)

        def both(x):
            return torch.autograd.grad(F.cross_entropy(x.float(), targets), x)

        def lean(x):
            return torch.autograd.grad(F.cross_entropy(x, targets), x)

        calls = [lambda: both(logits), lambda: lean(logits)]
        if self.compiles:
            fast = torch.compile(lambda x: F.cross_entropy(x.float(), targets))
            calls.append(lambda: torch.autograd.grad(fast(logits), logits))
        return calls

    def adamw(self, n):
        p = torch.nn.Parameter(self.random(n, dtype=torch.float32))
        p.grad = self.random(n, dtype=torch.float32)
        optimizer = torch.optim.AdamW([p], lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        low = torch.empty(n, device=DEVICE, dtype=self.type)

        def step():
            optimizer.step()
            if self.type != torch.float32:
                low.copy_(p.detach())  # ours writes the parameters that the model computes with, too

        return [step]

    def sum_squares(self, n):
        x = self.random(n, dtype=torch.float32)
        return [lambda: torch.linalg.vector_norm(x).item()]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--toy", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    for line in sys.stdin:
        row = json.loads(line)
        shape = {k: v for k, v in row.items() if k not in ("op", "elem", "ms", "bytes", "operations")}
        make = getattr(Ops(row, not a.toy), row["op"], None)
        if make:
            row["torch_ms"] = min(timed(call, a.rounds, a.toy) for call in make(**shape))
            torch.compiler.reset()
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
