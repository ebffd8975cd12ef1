#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/gpu.sh: plain PyTorch training the same model on one GPU. Prints one JSON line.

    torch_train.py CONFIG --steps N [--compile] [--toy]

CONFIG is what gpu/config.py makes, of a GPT-2 or a Llama. Parameters are float, bfloat16 is autocast's, attention is
scaled_dot_product_attention, AdamW is the fused one, gradients are clipped. Without CUDA only --toy runs: to see that it does."""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class GptBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, width = c["n_head"], c["n_embd"]
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c["vocab_size"], c["n_embd"]), nn.Embedding(c["n_positions"], c["n_embd"])
        self.blocks = nn.ModuleList(GptBlock(c) for _ in range(c["n_layer"]))
        self.ln_f = nn.LayerNorm(c["n_embd"])

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def turned(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


class LlamaBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, hidden = c["hidden_size"], c["intermediate_size"]
        self.heads, self.kv_heads = c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"])
        self.head_dim = width // self.heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, c["rms_norm_eps"]), nn.RMSNorm(width, c["rms_norm_eps"])
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        b, t, c = x.shape
        h = self.norm_1(x)
        q = turned(self.q(h).view(b, t, self.heads, -1).transpose(1, 2), cosine, sine)
        k = turned(self.k(h).view(b, t, self.kv_heads, -1).transpose(1, 2), cosine, sine)
        v = self.v(h).view(b, t, self.kv_heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, c))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(LlamaBlock(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings"):
            self.head.weight = self.embed.weight
        half = c["hidden_size"] // c["num_attention_heads"] // 2
        speed = c["rope_theta"] ** (-torch.arange(half) / half)
        angle = torch.arange(c["max_position_embeddings"])[:, None] * speed
        self.register_buffer("cosine", angle.cos().bfloat16(), persistent=False)
        self.register_buffer("sine", angle.sin().bfloat16(), persistent=False)

    def forward(self, ids, targets):
        x, t = self.embed(ids), ids.shape[1]
        for block in self.blocks:
            x = block(x, self.cosine[:t], self.sine[:t])
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("config")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--toy", action="store_true")
    a = p.parse_args()
    if not torch.cuda.is_available() and not a.toy:
        raise SystemExit("torch_train.py: this PyTorch sees no GPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open(a.config, encoding="utf-8") as f:
        config = json.load(f)
    c = config["model"]["config"]
    positions = c.get("n_positions") or c["max_position_embeddings"]

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = (Gpt if c["model_type"] == "gpt2" else Llama)(c).to(device)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    how = config["optimizer"]["params"]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=how["lr"], betas=how["betas"], eps=how["eps"], weight_decay=how["weight_decay"], fused=True)
    run = torch.compile(model) if a.compile else model

    times, steady = [], 10 if a.compile and not a.toy else 3
    for _ in range(a.steps + steady):
        ids = torch.randint(c["vocab_size"], (config["train_micro_batch_size_per_gpu"], positions + 1)).to(device)
        begun = time.monotonic()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = run(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["gradient_clipping"])
        optimizer.step()
        value = loss.item()  # waits, as a step of ours does for its loss
        times.append((time.monotonic() - begun) * 1e3)
    assert math.isfinite(value)
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "ms": statistics.median(times[steady:]),
                "least_ms": min(times[steady:]),
                "allocated_mib": torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
