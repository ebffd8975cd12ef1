# SPDX-License-Identifier: Apache-2.0
#
# dtrun-train's adapters against the same adapters in PyTorch, written here with plain calls: from the same folder of a model and
# the same adapters, the losses of two hundred steps, and then the adapters themselves, which are read as peft reads them. With dropout a
# twin drops the very elements that ours does: they hang on nothing but the seed and their place (ops/by_chance.h).

import argparse
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap

import numpy
import torch
import torch.nn.functional as F

import torch_model

STEPS, BATCH, POSITIONS, SEED = 200, 4, 24, 1234
# At 5e-3 GPT-2's adapters leap: PyTorch's own losses of step 200 are then 4e-3 apart in float and in double.
RATE = 2e-3
PREFIX = "base_model.model."
KINDS = ("A.weight", "B.weight", "magnitude_vector")


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + 4 * t.numel()]}
        at += 4 * t.numel()
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.contiguous().numpy().tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: torch_model.floats(data[slice(*t["data_offsets"])]).view(t["shape"])
            for name, t in head.items() if name != "__metadata__"}


def write_json(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f)


def module_of(config, name):
    """The module whose weight NAME is, as it is called in the model with a head."""
    bare = config["model_type"] == "gpt2" and not name.startswith("transformer.")
    return ("transformer." if bare else "") + name[: -len(".weight")]


def of_layer(lora, pattern, module):
    """As peft finds the rank or alpha of a layer; None: that of all."""
    return next((number for key, number in lora.get(pattern, {}).items() if re.match(r"(.*\.)?(%s)$" % key, module)), None)


def adapters_for(config, weights, lora):
    """{weight's name: [A, B]}, with a B that has a say from the first step on, and magnitudes somewhat off what W has."""
    found = {}
    for name, w in weights.items():
        module = module_of(config, name)
        if any(module.endswith("." + target) for target in lora["target_modules"]):
            outs, ins = w.shape[::-1] if config["model_type"] == "gpt2" else w.shape
            r = of_layer(lora, "rank_pattern", module) or lora["r"]
            found[name] = [torch.randn(r, ins) * 0.2, torch.randn(outs, r) * 0.1]
            if lora["use_dora"]:
                length = w.norm(dim=0 if config["model_type"] == "gpt2" else 1)
                found[name].append(length * (1 + 0.1 * torch.randn(outs)))
    return found


def saved_of(config, weights, lora):
    """What is trained whole beside them, somewhat off what the model has."""
    return {name: w + torch.randn(w.shape) * 0.05 for name, w in weights.items()
            if module_of(config, name).split(".")[-1] in lora.get("modules_to_save", [])}


def scale_of(config, lora, name, r):
    alpha = of_layer(lora, "alpha_pattern", module_of(config, name)) or lora["lora_alpha"]
    return alpha / (math.sqrt(r) if lora["use_rslora"] else r)


def gain(whole, magnitudes):
    """By what each row is multiplied; its norm is a constant on the way back."""
    return magnitudes / whole.norm(dim=1).detach()


def merged(config, weights, adapters, lora):
    """Weights in which the adapters are: x W + s B A x is x (W + s B A)."""
    whole = dict(weights)
    for name, (a, b, *magnitudes) in adapters.items():
        turned = config["model_type"] == "gpt2"
        one = (weights[name].T if turned else weights[name]) + scale_of(config, lora, name, len(a)) * (b @ a)
        if magnitudes:
            one = gain(one, magnitudes[0])[:, None] * one
        whole[name] = one.T if turned else one
    return whole


# The places of a Llama's layers among the tensors of a block: worker_runtime/model/shape.h.
PLACES = {"q_proj": 1, "k_proj": 2, "v_proj": 3, "o_proj": 9, "gate_proj": 11, "up_proj": 12, "down_proj": 13}
TENSORS = 14


class Dropping:
    """Stands in for torch.nn.functional in a Llama: its linear layers have adapters, which some of their input does not reach."""

    def __init__(self, config, weights, adapters, lora):
        self.layers = {id(weights[name]): (name, pair) for name, pair in adapters.items()}
        self.config, self.lora, self.step = config, lora, 0

    def __getattr__(self, name):
        return getattr(F, name)

    def mask(self, name, width):
        module = name.split(".")
        with numpy.errstate(over="ignore"):
            block = torch_model.mix(numpy.array([SEED + 1], numpy.uint64)) + numpy.uint64(int(module[2]) * TENSORS)
            start = torch_model.mix(block + numpy.uint64(PLACES[module[4]])) + numpy.uint64(self.step * BATCH * POSITIONS * width)
            bits = torch_model.mix(start + numpy.arange(BATCH * POSITIONS * width, dtype=numpy.uint64)) >> numpy.uint64(32)
        stays = bits >= int(numpy.float32(self.lora["lora_dropout"]) * numpy.float32(2**32))
        return torch.from_numpy(stays).view(BATCH, POSITIONS, width) / (1 - self.lora["lora_dropout"])

    def linear(self, x, w, bias=None):
        out = F.linear(x, w, bias)
        if id(w) not in self.layers:
            return out
        name, (a, b, *magnitudes) = self.layers[id(w)]
        fed, s = x * self.mask(name, x.shape[2]), scale_of(self.config, self.lora, name, len(a))
        low = s * F.linear(F.linear(fed, a), b)
        if not magnitudes:
            return out + low
        g = gain(w + s * (b @ a), magnitudes[0])
        return out + (g - 1) * F.linear(fed, w) + g * low


def loss_with(config, weights, adapters, lora, step, ids, targets):
    if not lora["lora_dropout"]:
        return torch_model.losses_of(config, merged(config, weights, adapters, lora), ids, targets)[0]
    torch_model.F = Dropping(config, weights, adapters, lora)
    torch_model.F.step = step
    try:
        return torch_model.losses_of(config, weights, ids, targets)[0]
    finally:
        torch_model.F = F


def groups_of(adapters, saved, lora):
    """As peft makes groups for LoRA+: B and magnitudes learn faster."""
    slow = [pair[0] for pair in adapters.values()] + list(saved.values())
    return [{"params": slow, "lr": RATE}, {"params": [x for pair in adapters.values() for x in pair[1:]], "lr": RATE * lora["plus"]}]


def torch_losses(config, weights, adapters, saved, lora, data):
    adapters = {name: [x.clone().requires_grad_() for x in pair] for name, pair in adapters.items()}
    saved = {name: x.clone().requires_grad_() for name, x in saved.items()}
    optimizer = torch.optim.AdamW(groups_of(adapters, saved, lora), betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step, (ids, targets) in enumerate(data):
        loss = loss_with(config, {**weights, **saved}, adapters, lora, step, ids, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, adapters, saved


def text(vocabulary):
    """One row of words, of which each follows from the one before and chance."""
    words = [1]
    while len(words) < STEPS * BATCH * POSITIONS + 1:
        words.append((words[-1] * 7 + int(torch.randint(3, ()))) % vocabulary)
    return torch.tensor(words)


def samples(words):
    ids = words[:-1].view(STEPS, BATCH, POSITIONS)
    return list(zip(ids, words[1:].view(STEPS, BATCH, POSITIONS)))


def train(program, folder, config, lora, weights, adapters, saved, words, more=None):
    """What dtrun-train makes of the same: its losses, and its adapters."""
    base, start, out = (os.path.join(folder, name) for name in ("base", "start", "out"))
    write_json(base, "config.json", config)
    write_safetensors(os.path.join(base, "model.safetensors"), weights)
    write_json(start, "adapter_config.json", lora)
    write_safetensors(os.path.join(start, "adapter_model.safetensors"),
                      {**{"%s%s.lora_%s" % (PREFIX, module_of(config, name), kind): x
                          for name, pair in adapters.items() for kind, x in zip(KINDS, pair)},
                       **{"%s%s.weight" % (PREFIX, module_of(config, name)): x for name, x in saved.items()}})
    with open(os.path.join(folder, "words.bin"), "wb") as f:
        f.write(struct.pack("<%dH" % len(words), *words.tolist()))
    write_json(folder, "run.json", {
        "train_batch_size": BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "model": {"config": "base", "weights": "base"},
        "lora": {"from": "start", "plus_ratio": lora["plus"]},
        "data": {"train": "words.bin", "raw_width": 2, "sequence_length": POSITIONS, "shuffle": False},
        "train": {"steps": STEPS, "seed": SEED, "threads": 1, "save_dir": out, "metrics": os.path.join(folder, "metrics.jsonl")},
        **(more or {}),
    })
    subprocess.run([program, "--config", os.path.join(folder, "run.json")], check=True, stdout=subprocess.DEVNULL,
                   preexec_fn=tap.die_with_parent)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        losses = [row["loss"] for row in map(json.loads, f) if "loss" in row]
    return losses, read_safetensors(os.path.join(out, "step-%08d" % STEPS, "adapter_model.safetensors"))


def check_losses(ours, theirs):
    """Samples are of unequal difficulty: whether something is learned shows in many of them."""
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    first, last = sum(ours[:15]) / 15, sum(ours[-15:]) / 15
    tap.comment("loss %.5f to %.5f: at most %.2g apart" % (first, last, worst))
    if len(ours) != len(theirs) or not worst < 1e-4 or not last < first - 0.02:
        raise AssertionError("losses differ, or nothing was learned:\nours   %s\ntheirs %s" % (ours, theirs))


def compare(program, config, targets, r, alpha, rslora=False, save=(), dora=False, dropout=0, plus=1, ranks=None, alphas=None):
    torch.manual_seed(3)
    lora = {"peft_type": "LORA", "r": r, "lora_alpha": alpha, "use_rslora": rslora, "target_modules": targets,
            "modules_to_save": list(save), "use_dora": dora, "lora_dropout": dropout, "plus": plus,
            "rank_pattern": ranks or {}, "alpha_pattern": alphas or {}}
    with tempfile.TemporaryDirectory() as folder:
        weights = torch_model.random_weights(shapes_of(config))
        adapters = adapters_for(config, weights, lora)
        saved = saved_of(config, weights, lora)
        words = text(config["vocab_size"])
        losses, got = train(program, folder, config, lora, weights, adapters, saved, words)
    theirs, wanted, kept = torch_losses(config, weights, adapters, saved, lora, samples(words))
    check_losses(losses, theirs)
    for name, pair in wanted.items():
        for kind, x in zip(KINDS, pair):
            ours = got.pop("%s%s.lora_%s" % (PREFIX, module_of(config, name), kind))
            apart = ((ours - x).norm() / x.norm()).item()
            if ours.shape != x.shape or not apart < 1e-3:
                raise AssertionError("lora_%s of %s is %g apart" % (kind, name, apart))
    for name, x in kept.items():
        apart = ((got.pop("%s%s.weight" % (PREFIX, module_of(config, name))) - x).norm() / x.norm()).item()
        if not apart < 1e-4:
            raise AssertionError("%s is %g apart" % (name, apart))
    tap.check_equal(list(got), [], "adapters that nobody asked for")


def shapes_of(config):
    if config["model_type"] == "gpt2":
        c, v, inner = config["n_embd"], config["vocab_size"], 4 * config["n_embd"]
        shapes = {"wte.weight": [v, c], "wpe.weight": [config["n_positions"], c], "ln_f.weight": [c], "ln_f.bias": [c]}
        block = {"ln_1.weight": [c], "ln_1.bias": [c], "attn.c_attn.weight": [c, 3 * c], "attn.c_attn.bias": [3 * c],
                 "attn.c_proj.weight": [c, c], "attn.c_proj.bias": [c], "ln_2.weight": [c], "ln_2.bias": [c],
                 "mlp.c_fc.weight": [c, inner], "mlp.c_fc.bias": [inner], "mlp.c_proj.weight": [inner, c], "mlp.c_proj.bias": [c]}
        return {**shapes, **{"h.%d.%s" % (i, n): s for i in range(config["n_layer"]) for n, s in block.items()}}
    c, inner, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = c // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": [v, c], "model.norm.weight": [c], "lm_head.weight": [v, c]}
    block = {"input_layernorm.weight": [c], "post_attention_layernorm.weight": [c], "self_attn.q_proj.weight": [c, c],
             "self_attn.k_proj.weight": [kv, c], "self_attn.v_proj.weight": [kv, c], "self_attn.o_proj.weight": [c, c],
             "mlp.gate_proj.weight": [inner, c], "mlp.up_proj.weight": [inner, c], "mlp.down_proj.weight": [c, inner]}
    return {**shapes, **{"model.layers.%d.%s" % (i, n): s for i in range(config["num_hidden_layers"]) for n, s in block.items()}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    program = parser.parse_args().train
    tap.start(280)
    torch.set_num_threads(1)
    every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    cases = {
        "a Llama's queries and values": (torch_model.LLAMA, ["q_proj", "v_proj"], 4, 8, {"plus": 4}),
        "all layers of a Llama, scaled by the root of the rank": (torch_model.LLAMA, every, 3, 2, {"rslora": True, "dropout": 0.2}),
        "a Llama's queries, with its words and its head":
            (torch_model.LLAMA, ["q_proj"], 4, 8, {"save": ["embed_tokens", "lm_head"]}),
        "a GPT-2's c_attn": (torch_model.GPT2, ["c_attn"], 4, 16, {}),
        "all layers of a GPT-2": (torch_model.GPT2, ["c_attn", "c_proj", "c_fc"], 5, 5, {}),
        "all layers of a Llama, with magnitudes": (torch_model.LLAMA, every, 4, 8, {"dora": True}),
        "some layers of a Llama, with magnitudes and dropout":
            (torch_model.LLAMA, ["q_proj", "v_proj", "down_proj"], 4, 8, {"dora": True, "dropout": 0.1, "plus": 2}),
        "all layers of a GPT-2, with magnitudes": (torch_model.GPT2, ["c_attn", "c_proj", "c_fc"], 5, 5, {"dora": True}),
        "layers of a Llama with ranks and alphas of their own, some in one block, with magnitudes and dropout":
            (torch_model.LLAMA, every, 3, 6, {"ranks": {"model.layers.1.self_attn.q_proj": 5, "[qv]_proj": 2, r"layers\.\d+\.mlp.up_proj": 1},
                                              "alphas": {"q_proj": 9, "^model.layers.0.mlp.*": 2}, "rslora": True, "dora": True, "dropout": 0.1}),
    }
    for name, (*case, how) in cases.items():
        tap.case(name, lambda case=case, how=how: compare(program, *case, **how))
    tap.done()


if __name__ == "__main__":
    main()
