# SPDX-License-Identifier: Apache-2.0
#
# Learning rates of whole runs under Hugging Face's names, against their formulas: a factor of the optimizer's rate for each
# update, the first of which is number 0.

import json
import math

import tap
import training

RATE = 2e-3
STEPS = 11
TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1, "n_positions": 8, "vocab_size": 320}


def warmed(after, first=0.0):
    """A linear rise over W updates, and then AFTER of the way from W to N."""
    def factor(k, w, n):
        return first + (1 - first) * k / w if k < w else after(k, w, n)
    return factor


def way(k, w, n):
    return (k - w) / max(1, n - w)


def half_cosine(x):
    return 0.5 * (1 + math.cos(math.pi * x))


def stable(k, w, n):
    decay = 4
    level = n - w - decay
    if k < w + level:
        return 1.0
    return 0.1 + 0.9 * (1 - math.sqrt((k - w - level) / decay))


RULES = {
    "constant": ({}, lambda k, w, n: 1.0),
    "constant_with_warmup": ({}, warmed(lambda k, w, n: 1.0)),
    "linear": ({}, warmed(lambda k, w, n: max(0.0, (n - k) / max(1, n - w)))),
    "cosine": ({}, warmed(lambda k, w, n: half_cosine(way(k, w, n)))),
    "cosine_with_restarts": ({"num_cycles": 3}, warmed(lambda k, w, n: half_cosine(3 * way(k, w, n) % 1))),
    "cosine_with_min_lr": ({"min_lr": 0.3 * RATE}, warmed(lambda k, w, n: 0.7 * half_cosine(way(k, w, n)) + 0.3)),
    "polynomial": ({"power": 3, "lr_end": 0.1 * RATE}, warmed(lambda k, w, n: 0.9 * (1 - way(k, w, n)) ** 3 + 0.1)),
    "inverse_sqrt": ({}, warmed(lambda k, w, n: 1 / math.sqrt(k / (w or 10000) + (0 if w else 1)))),
    "warmup_stable_decay": ({"num_decay_steps": 4, "min_lr_ratio": 0.1, "decay_type": "1-sqrt"}, warmed(stable, 0.1)),
}


def check_rates(s, c, factor, warmup, what):
    rows = s.steps(c)
    total = len(rows)
    for step in range(1, total + 1):
        wanted = RATE * factor(step - 1, warmup(total), total)
        if abs(rows[step]["lr"] - wanted) > 1e-5 * RATE:
            raise AssertionError("%s: step %d of %d has the rate %.9g, wanted %.9g"
                                 % (what, step, total, rows[step]["lr"], wanted))
    return total


def config(s, name, kind, params, **train):
    c = s.config(name, model=TINY, batch=2, steps=STEPS, optimizer={"params": {"lr": RATE}}, **train)
    with open(c, encoding="utf-8") as f:
        all_keys = json.load(f)
    all_keys["scheduler"] = {"type": kind, "params": params}
    if "epochs" in train:
        del all_keys["train"]["steps"]
    with open(c, "w", encoding="utf-8") as f:
        json.dump(all_keys, f)
    return c


@training.story
def by_name(s):
    """each rule has the rates of its formula, with and without a warm-up"""
    for kind, (params, factor) in RULES.items():
        for warmup in (0, 3):
            c = config(s, "%s%d.json" % (kind, warmup), kind, {**params, "warmup_num_steps": warmup})
            s.run(c, world=0)
            tap.check_equal(check_rates(s, c, factor, lambda total: warmup, kind), STEPS, "steps of " + kind)


@training.story
def by_share(s):
    """warmup_ratio is a share of the steps that train.epochs come to, rounded up; a run in two parts has the same rates"""
    share = {"warmup_ratio": 0.13}
    factor = RULES["cosine"][1]
    c = config(s, "whole.json", "cosine", share, epochs=0.02)
    s.run(c, world=0)
    total = check_rates(s, c, factor, lambda total: math.ceil(total * 0.13), "warmup_ratio")
    tap.check_equal(total > 20, True, "an end that follows from the data: %d steps" % total)
    d = config(s, "parts.json", "cosine", {**share, "total_num_steps": total}, save_dir=s.path("ckpt"))
    for steps in (5, total):
        s.run(d, "--set", "train.steps=%d" % steps, world=0)
    tap.check_equal([r["lr"] for r in s.steps(d).values()], [r["lr"] for r in s.steps(c).values()], "rates")
    tap.check_equal(s.losses(d), s.losses(c), "losses")


@training.story
def without_end(s):
    """epochs of more steps than can be counted are refused"""
    c = config(s, "endless.json", "linear", {}, epochs=1e6,
               data={"train": [{"path": s.data, "weight": 1e6}], "sequence_length": 1})
    s.run(c, world=0, status=2).expect(r"train\.epochs: 1e\+06 times the \d+ samples of data\.train are more steps than can")


training.main()
