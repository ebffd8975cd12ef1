#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention by each of its backends, at the shapes of bench/gpu_kernels.c: attention.py [--rounds N] < LINES

For each line of an attention op a line of JSON comes for each backend that takes the shape: "ms", and "ratio", how many times as fast
as ours it is."""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels import Ops, backward_of, timed

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def measure(row, backend, rounds):
    shape = {k: row[k] for k in ("batch", "positions", "heads", "kv_heads", "head_dim")}
    forward = row["op"] == "attention_forward"
    q, k, v, how = Ops(row, False).heads(grad=not forward, **shape)
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(q, k, v, **how)
        call = (lambda: F.scaled_dot_product_attention(q, k, v, **how)) if forward else backward_of(
            out, (q, k, v), torch.rand_like(out))
        return timed(call, rounds, False)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    for line in sys.stdin:
        row = json.loads(line)
        for name, backend in BACKENDS.items():
            try:
                ms = measure(row, backend, a.rounds)
            except RuntimeError as e:  # this backend does not take the shape
                print("%s: %s" % (name, str(e).splitlines()[0]), file=sys.stderr)
                continue
            print(json.dumps(dict({k: v for k, v in row.items() if k not in ("ms", "bytes")}, backend=name, ms=ms, ratio=row["ms"] / ms)),
                  flush=True)


if __name__ == "__main__":
    main()
