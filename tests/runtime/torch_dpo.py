# SPDX-License-Identifier: Apache-2.0
#
# dtrun-train's preferences against the same loss in PyTorch, in double precision and written here with plain calls: each answer
# goes through the model by itself. From new adapters the first loss is ln 2; then the losses and rewards of twenty steps.

import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap

import torch
import torch.nn.functional as F

import torch_lora
import torch_model

STEPS, BATCH, POSITIONS, PAIRS, LR = 20, 4, 30, 11, 2e-3


def random_pairs(vocabulary):
    """(chosen, rejected), each (tokens, where its answer begins); the prompt of both is one."""
    def words(most):
        return torch.randint(vocabulary, (int(torch.randint(1, most + 1, ())),)).tolist()

    pairs = []
    for _ in range(PAIRS):
        prompt = words(6)
        pairs.append(tuple((prompt + words(8), len(prompt)) for _ in range(2)))
    return pairs


def write_pairs(path, pairs, vocabulary):
    """A file of tokens of version 3 (dtrun/data.h)."""
    documents = [document for pair in pairs for document in pair]
    tokens = [token for ids, _ in documents for token in ids]
    trained = [at >= answer for ids, answer in documents for at in range(len(ids))]
    bits = bytes(sum(bit << k for k, bit in enumerate(trained[i:i + 8])) for i in range(0, len(trained), 8))
    begins, at = [], 0
    for ids, _ in documents:
        begins.append(at)
        at += len(ids)
    with open(path, "wb") as f:
        f.write(b"DTRTOKEN" + struct.pack("<4I4Q", 3, 2, 0, vocabulary, len(tokens), len(documents), sum(trained), 1))
        f.write(struct.pack("<%dH" % len(tokens), *tokens) + bits + struct.pack("<%dQ" % len(begins), *begins))


def log_probability(config, weights, document):
    ids, answer = torch.tensor(document[0]), document[1]
    logits = torch_model.logits_of(config, weights, ids[None, :-1])[0]
    return F.log_softmax(logits, 1).gather(1, ids[1:, None])[answer - 1:, 0].sum()


def torch_steps(config, weights, adapters, lora, pairs, dpo):
    """Losses, and the rewards of the chosen and of the rejected, of each step; samples are taken in turn."""
    weights = {name: w.double() for name, w in weights.items()}
    adapters = {name: [x.double().requires_grad_() for x in pair] for name, pair in adapters.items()}
    optimizer = torch.optim.AdamW([x for pair in adapters.values() for x in pair], lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    beta, e, rows = dpo["beta"], dpo.get("label_smoothing", 0), []
    for step in range(STEPS):
        taken = [pairs[(step * BATCH + i) % PAIRS] for i in range(BATCH)]
        with torch.no_grad():
            reference = torch.stack([log_probability(config, weights, d) for pair in taken for d in pair]).view(-1, 2)
        whole = torch_lora.merged(config, weights, adapters, lora)
        policy = torch.stack([log_probability(config, whole, d) for pair in taken for d in pair]).view(-1, 2)
        rewards = beta * (policy - reference)
        x = rewards[:, 0] - rewards[:, 1]
        loss = -(1 - e) * F.logsigmoid(x) - e * F.logsigmoid(-x)
        loss = (loss - dpo.get("sft", 0) * policy[:, 0] / torch.tensor([float(len(c[0]) - c[1]) for c, _ in taken])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows.append((loss.item(), *rewards.mean(0).tolist(), (x > 0).double().mean().item()))
    return rows


def our_steps(program, folder, config, lora, weights, adapters, pairs, dpo):
    base, start = (os.path.join(folder, name) for name in ("base", "start"))
    torch_lora.write_json(base, "config.json", config)
    torch_lora.write_safetensors(os.path.join(base, "model.safetensors"), weights)
    torch_lora.write_json(start, "adapter_config.json", lora)
    torch_lora.write_safetensors(os.path.join(start, "adapter_model.safetensors"), {
        "%s%s.lora_%s.weight" % (torch_lora.PREFIX, torch_lora.module_of(config, name), half): x
        for name, pair in adapters.items() for half, x in zip("AB", pair)})
    write_pairs(os.path.join(folder, "pairs.bin"), pairs, config["vocab_size"])
    torch_lora.write_json(folder, "run.json", {
        "train_batch_size": BATCH, "gradient_accumulation_steps": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "model": {"config": "base", "weights": "base"},
        "lora": {"from": "start"},
        "dpo": dpo,
        "data": {"train": "pairs.bin", "sequence_length": POSITIONS, "shuffle": False},
        "train": {"steps": STEPS, "threads": 1, "metrics": os.path.join(folder, "metrics.jsonl")},
    })
    subprocess.run([program, "--config", os.path.join(folder, "run.json")], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, preexec_fn=tap.die_with_parent)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    for row in rows:
        if abs(row["reward_margin"] - (row["reward_chosen"] - row["reward_rejected"])) > 1e-9:
            raise AssertionError("the margin is not what is between rewards: %r" % row)
    return [(r["loss"], r["reward_chosen"], r["reward_rejected"], r["reward_accuracy"]) for r in rows]


def compare(program, config, targets, **dpo):
    torch.manual_seed(5)
    lora = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": False, "target_modules": targets, "modules_to_save": [],
            "use_dora": False}
    weights = torch_model.random_weights(torch_lora.shapes_of(config))
    adapters = {name: [a, torch.zeros_like(b)] for name, (a, b) in torch_lora.adapters_for(config, weights, lora).items()}
    pairs = random_pairs(config["vocab_size"])
    with tempfile.TemporaryDirectory() as folder:
        ours = our_steps(program, folder, config, lora, weights, adapters, pairs, dpo)
    theirs = torch_steps(config, weights, adapters, lora, pairs, dpo)
    tap.check_equal(len(ours), STEPS, "steps")
    worst = max(abs(a - b) / max(1, abs(b)) for one, other in zip(ours, theirs) for a, b in zip(one, other))
    tap.comment("loss %.6f to %.6f, right %.2f: at most %.2g apart" % (ours[0][0], ours[-1][0], ours[-1][3], worst))
    if not worst < 1e-5 or not ours[-1][0] < ours[0][0] - 0.02:
        raise AssertionError("steps differ, or nothing was learned:\nours   %s\ntheirs %s" % (ours, theirs))
    if not dpo.get("sft") and abs(ours[0][0] - math.log(2)) > 1e-6:
        raise AssertionError("the first loss is %.9f, and not ln 2" % ours[0][0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    program = parser.parse_args().train
    tap.start(280)
    torch.set_num_threads(1)
    cases = {
        "a Llama": (torch_model.LLAMA, ["q_proj", "v_proj", "down_proj"], {"beta": 0.1}),
        "a GPT-2": (torch_model.GPT2, ["c_attn", "c_fc"], {"beta": 0.5}),
        "labels that are smoothed": (torch_model.LLAMA, ["v_proj"], {"beta": 0.3, "label_smoothing": 0.2}),
        "with what is learned of chosen answers": (torch_model.LLAMA, ["q_proj", "v_proj"], {"beta": 0.1, "sft": 0.5}),
    }
    for name, (config, targets, dpo) in cases.items():
        tap.case(name, lambda config=config, targets=targets, dpo=dpo: compare(program, config, targets, **dpo))
    tap.done()


if __name__ == "__main__":
    main()
