#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/gpu/quick compares a GPU with: what dtrun-train says, and leaves, on a CPU.

    quick_golden.py make --train PROGRAM --out FOLDER [--small]    on the machine that packs the bundle; --small: for a mock GPU
    quick_golden.py compare FILE FOLDER    a golden model.safetensors with that of FOLDER's last checkpoint; ends with 1 when too far

FOLDER gets, for each tiny model and for GPT-2 124M, NAME.json, and NAME.float and NAME.bf16 with the number, loss and norm of the
gradients of each step, a line each; weights after the last step as NAME.weights; train-NAME.json for each model whose speed is told; and
two files of tokens. It needs nothing but Python."""
import argparse
import array
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = 5
# Heads of 64 and of 32 numbers, and fewer for keys than for queries.
LLAMA = {"hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "vocab_size": 320}
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 2, "n_positions": 64, "vocab_size": 320}
MODELS = {
    "gpt2": GPT2,
    "llama": {"model_type": "llama", **LLAMA},
    "qwen3": {"model_type": "qwen3", "head_dim": 64, **LLAMA},
    "mistral": {"model_type": "mistral", "sliding_window": 16, **LLAMA},
    "gpt2-124m": {**GPT2, "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 256, "vocab_size": 50257},
}
# Of those, for a mock GPU, which takes seconds for what a GPU does in less than one.
TINY = {"n_layer": 1, "n_embd": 32, "n_positions": 16, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16, "head_dim": 32, "sliding_window": 6}
# A bias of keys has no gradient but what rounding leaves, of which AdamW makes whole steps: models without one.
WITH_WEIGHTS = ("llama", "qwen3")
# What is trained for its speed: example, positions, samples of a step.
TRAINED = {
    "gpt2-1024": ("gpt2-124m", 1024, 16),
    "llama-1024": ("llama-1b", 1024, 8),
    "gpt2-4096": ("gpt2-124m", 4096, 4),
    "llama-4096": ("llama-1b", 4096, 2),
    "llama-24x1024": ("llama-1b", 1024, 24),
}
MOST_APART = 1e-3


def config(name, small):
    model = MODELS[name]
    if small:
        model = {key: TINY.get(key, value) for key, value in model.items()}
    return {
        "train_batch_size": 2 if small or name == "gpt2-124m" else 4,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 2, "total_num_steps": STEPS}},
        "zero_optimization": {"stage": 0},
        "model": {"config": model},
        "data": {"train": "wide.bin" if model["vocab_size"] > 320 else "tokens.bin", "raw_width": 2},
        "train": {"steps": STEPS, "seed": 7, "log_every": 1},
    }


def write_tokens(folder):
    """Letters of our documents, which a model can learn something of; and numbers by chance, of which a table is met everywhere."""
    docs = os.path.join(TOP, "docs")
    text = b"".join(open(os.path.join(docs, name), "rb").read() for name in sorted(os.listdir(docs)) if name.endswith(".md"))[:200000]
    chance = random.Random(1)
    for name, numbers in (("tokens.bin", text), ("wide.bin", (chance.randrange(32000) for _ in range(400000)))):
        numbers = array.array("H", list(numbers))  # of bytes it would take two at a time
        if sys.byteorder == "big":
            numbers.byteswap()
        with open(os.path.join(folder, name), "wb") as f:
            numbers.tofile(f)


def steps_of(path):
    with open(path, encoding="utf-8") as f:
        return [row for row in map(json.loads, f) if "loss" in row]


def make_one(a, name, tmp):
    path = os.path.join(a.out, name + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config(name, a.small), f, indent=1)
    for kind in ("float", "bf16"):
        metrics, saved = os.path.join(tmp, name + kind), os.path.join(tmp, name + kind + "-saved")
        words = ["train.device=cpu", "train.metrics=" + metrics, "bf16.enabled=" + str(kind == "bf16").lower()]
        if kind == "float" and name in WITH_WEIGHTS:
            words += ["train.save_dir=" + saved, "train.save_every=%d" % STEPS]
        subprocess.run([a.train, "--config", path, "--resume", "none", *(w for word in words for w in ("--set", word))],
                       check=True, stdout=sys.stderr, cwd=a.out)
        rows = steps_of(metrics)
        if len(rows) != STEPS:
            sys.exit("quick_golden.py: %s made %d steps, %d were wanted" % (name, len(rows), STEPS))
        with open(os.path.join(a.out, "%s.%s" % (name, kind)), "w", encoding="utf-8") as f:
            f.writelines("%d %.9g %.9g\n" % (row["step"], row["loss"], row["grad_norm"]) for row in rows)
        if os.path.exists(saved):
            shutil.copyfile(model_file(saved), os.path.join(a.out, name + ".weights"))


def make(a):
    a.out, a.train = os.path.abspath(a.out), os.path.abspath(a.train)
    os.makedirs(a.out, exist_ok=True)
    write_tokens(a.out)
    with tempfile.TemporaryDirectory(prefix="dtrun-golden-") as tmp:
        for name in MODELS:
            if not (a.small and name == "gpt2-124m"):
                make_one(a, name, tmp)
    for name, (example, positions, batch) in () if a.small else TRAINED.items():
        with open(os.path.join(a.out, "train-%s.json" % name), "wb") as f:
            subprocess.run([sys.executable, os.path.join(TOP, "bench/gpu/config.py"), os.path.join(TOP, "examples", example + ".json"),
                            str(positions), str(batch), "18", "wide.bin", "metrics"], check=True, stdout=f)


def model_file(folder):
    """Of the last checkpoint, whose name "latest" has."""
    with open(os.path.join(folder, "latest"), encoding="utf-8") as f:
        return os.path.join(folder, f.read().strip().strip('"'), "model.safetensors")


def tensors(path):
    """{name: floats} of a file of float32."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        if size > 1 << 20:
            sys.exit("quick_golden.py: %s is no safetensors" % path)
        header, data = json.loads(f.read(size)), f.read()
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = array.array("f", data[begin:end])
    return found


def apart(wanted, got):
    """The norm of the difference, in parts of the norm."""
    if len(wanted) != len(got):
        return math.inf
    far = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(wanted, got)))
    return far / (math.sqrt(math.fsum(x * x for x in wanted)) or 1)


def compare(a):
    wanted, got = tensors(a.golden), tensors(model_file(a.folder))
    if set(wanted) != set(got):
        sys.exit("quick_golden.py: other tensors than %s" % a.golden)
    worst, name = max((apart(wanted[name], got[name]), name) for name in wanted)
    print("%d tensors at most %.2g apart (%s)" % (len(wanted), worst, name))
    return 0 if worst <= MOST_APART else 1


def main():
    p = argparse.ArgumentParser()
    commands = p.add_subparsers(dest="command", required=True)
    one = commands.add_parser("make")
    one.add_argument("--train", required=True)
    one.add_argument("--out", required=True)
    one.add_argument("--small", action="store_true")
    one.set_defaults(run=make)
    one = commands.add_parser("compare")
    one.add_argument("golden")
    one.add_argument("folder")
    one.set_defaults(run=compare)
    a = p.parse_args()
    sys.exit(a.run(a))


main()
