# SPDX-License-Identifier: Apache-2.0
#
# The dropout that a model's config.json names: the same goes in each world and mesh, and after each start; validation drops nothing.

import json
import os

import tap
import training

GPT2 = {**training.GPT2, "n_head": 4, "n_layer": 4, "embd_pdrop": 0.1, "resid_pdrop": 0.2, "attn_pdrop": 0.3}
LLAMA = {**training.LLAMA, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "attention_dropout": 0.3}
# A window that ends within a piece, capped scores, and norms behind branches.
GEMMA2 = {"model_type": "gemma2", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 12, "max_position_embeddings": 32, "vocab_size": 320, "sliding_window": 9,
          "query_pre_attn_scalar": 20, "attention_dropout": 0.2}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
LONGER = {**GPT2, "n_positions": 64}


def meshes():
    """Rows of a name, a world, and what a configuration says of it."""
    return (("two", 2, {}), ("four", 4, {"stage": 3}), ("tensor", 2, {"parallel": {"tensor": 2}}),
            ("sequence", 4, {"parallel": {"tensor": 2, "sequence": True}, "stage": 1}),
            ("keys", 4, {"parallel": {"context": 4}}), ("heads", 2, {"parallel": {"context": 2, "context_by": "heads"}}),
            ("ring", 4, {"parallel": {"context": 4, "context_by": "ring"}}),
            ("stages", 3, {"parallel": {"pipeline": 3}, "accumulation": 3}),
            ("chunks", 2, {"parallel": {"pipeline": 2, "schedule": "interleaved", "chunks": 2}, "accumulation": 4}),
            ("halves", 3, {"parallel": {"pipeline": 3, "schedule": "zb-h1"}, "accumulation": 3}),
            ("recomputed", 1, {"activation_checkpointing": {}}),
            ("both", 4, {"parallel": {"tensor": 2, "context": 2, "context_by": "heads"}, "stage": 2}),
            ("rows", 4, {"parallel": {"tensor": 2, "sequence": True, "context": 2}, "activation_checkpointing": {}}))


def compare(s, got, wanted, what):
    training.close(s.losses(got), s.losses(wanted), 1e-5, what)
    training.close(s.norms(got), s.norms(wanted), 1e-4, "norms, " + what)


def drops(s, c, plain, what):
    """Losses of C are others than those of PLAIN, which trains on the same without dropout."""
    apart = [abs(a - b) / b for a, b in zip(s.losses(c), s.losses(plain))]
    if min(apart) == 0 or max(apart) < 1e-5:
        raise AssertionError("%s: nothing was dropped: %r" % (what, apart))


def without(model):
    return {k: v for k, v in model.items() if "drop" not in k}


@training.story
def same_losses(s):
    """each world and each mesh drops the same, in each family; and not nothing"""
    for model in (GPT2, LLAMA, GEMMA2):
        kind = model["model_type"]
        alone, plain = s.config(kind + ".json", model=model, steps=5), s.config(kind + "-plain.json", model=without(model), steps=5)
        s.run(alone)
        s.run(plain)
        drops(s, alone, plain, kind)
        for name, world, how in meshes():
            c = s.config("%s-%s.json" % (kind, name), model=model, steps=5, **how)
            s.run(c, world=world)
            compare(s, c, alone, "%s, %s" % (kind, name))


@training.story
def experts(s):
    """ranks that share experts, each with samples of its own, drop the same weights of attention as one that has all"""
    alone, plain = s.config("alone.json", model=MIXTRAL, steps=4), s.config("plain.json", model=without(MIXTRAL), steps=4)
    shared = s.config("shared.json", model=MIXTRAL, steps=4, parallel={"expert": 2, "context": 2})
    for c, world in ((alone, 1), (plain, 1), (shared, 4)):
        s.run(c, world=world)
    drops(s, alone, plain, "experts")
    compare(s, shared, alone, "experts")


@training.story
def each_place(s):
    """each of a GPT-2's three kinds of dropout changes the losses, and is the same for ranks that share tensors and samples"""
    plain = s.config("plain.json", model=without(GPT2), steps=3)
    s.run(plain)
    for key in ("embd_pdrop", "resid_pdrop", "attn_pdrop"):
        model = {**without(GPT2), key: 0.2}
        alone = s.config(key + ".json", model=model, steps=3)
        s.run(alone)
        drops(s, alone, plain, key)
        shared = s.config(key + "4.json", model=model, steps=3, parallel={"tensor": 2, "sequence": True, "context": 2})
        s.run(shared, world=4)
        compare(s, shared, alone, key)


@training.story
def documents(s):
    """the same where documents are packed into samples, with micro-steps and a validation, on stages of which one reads nothing else"""
    more = {"model": LONGER, "batch": 24, "steps": 4, "accumulation": 4, "validate_every": 4, "validation_batches": 2,
            **training.conversations(s)}
    alone = s.config("alone.json", **more)
    wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
    for name, world, mesh in (("context", 4, {"context": 4}), ("stages", 3, {"pipeline": 3}), ("both", 4, {"pipeline": 2, "context": 2}),
                              ("chunks", 4, {"pipeline": 2, "schedule": "interleaved", "chunks": 2, "tensor": 2})):
        c = s.config(name + ".json", parallel=mesh, activation_checkpointing={}, **more)
        got = float(s.run(c, world=world).expect(r"validation\D*([\d.]+)").group(1))
        compare(s, c, alone, name)
        training.close([got], [wanted], 1e-4, "validation, " + name)


@training.story
def validation(s):
    """a validation drops nothing: with a rate that leaves the weights as they were it is that of the model without dropout"""
    still = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-12}}, "steps": 1, "data": {"train": s.data, "validation": s.data},
             "validate_every": 1, "validation_batches": 2}
    told = []
    for name, model in (("drops.json", GPT2), ("plain.json", without(GPT2))):
        told.append(s.run(s.config(name, model=model, **still)).expect(r"validation\D*([\d.]+)").group(1))
    tap.check_equal(told[0], told[1], "loss of a validation")
    if s.losses(s.path("drops.json")) == s.losses(s.path("plain.json")):
        raise AssertionError("nothing was dropped in training")


@training.story
def goes_on(s):
    """a run that goes on, elsewhere or after a kill, has the losses of one in one piece, and checkpoints name the dropout"""
    for model in (GPT2, LLAMA):
        kind = model["model_type"]
        whole, saved = s.config(kind + ".json", model=model, steps=6), s.path(kind)
        s.run(whole)
        before = 0
        for name, world, how in (meshes()[i] for i in (0, 3, 6)):
            c = s.config("%s-%s.json" % (kind, name), model=model, steps=6, save_dir=saved, **how)
            s.run(c, "--set", "train.steps=%d" % (before + 2), world=world)
            training.close(s.losses(c), s.losses(whole)[before:before + 2], 1e-5, "%s, %s" % (kind, name))
            before += 2
        with open(os.path.join(saved, "step-%08d" % before, "config.json"), encoding="utf-8") as f:
            written = json.load(f)
        tap.check_equal({k: written[k] for k in model if "drop" in k}, {k: v for k, v in model.items() if "drop" in k}, "in a checkpoint")
    c = s.config("killed.json", model=GPT2, steps=40, stage=2, vault_every=1)
    s.run_killed(c, 4, 1)
    alone = s.config("alone.json", model=GPT2, steps=40)
    s.run(alone)
    training.close(s.losses(c), s.losses(alone), 1e-5, "4 ranks, one of which was killed")


@training.story
def adapters_and_pairs(s):
    """a frozen model drops beside adapters that do, too, and beside pairs of answers the reference alone drops nothing"""
    base = s.path("base")
    s.run(s.config("base.json", model=LONGER, steps=1, save_dir=base))
    lora = {"r": 4, "alpha": 8, "dropout": 0.2, "target_modules": ["c_attn", "c_proj"]}
    pairs = training.pairs(s)
    pairs["sequence_length"] = 64
    for name, model, more in (("text", LONGER, {"lora": lora}), ("pairs", LONGER, {"dpo": {}, "data": pairs, "lora": lora}),
                              ("plain", without(LONGER), {"dpo": {}, "data": pairs})):
        more = {"model": model, "steps": 3, **more}
        alone, halved = s.config(name + ".json", **more), s.config(name + "2.json", parallel={"context": 2}, stage=2, **more)
        for c, world in ((alone, 1), (halved, 4)):
            s.run(c, "--init-from", base, world=world)
        compare(s, halved, alone, name)
    # Without dropout the first loss is ln 2: both answers are as likely as the reference has them.
    if abs(s.losses(s.path("pairs.json"))[0] - 0.693147) < 1e-4:
        raise AssertionError("the trained model dropped nothing")
    training.close(s.losses(s.path("plain.json"))[:1], [0.693147], 1e-5, "pairs without dropout")


@training.story
def is_refused(s):
    """shares that cannot be, and attention's dropout on GPUs, are refused by name"""
    for number, (model, device, words) in enumerate((
            ({**GPT2, "embd_pdrop": 1}, "cpu", r"embd_pdrop: expected a number from 0 to 0.99, found 1"),
            (GPT2, "cuda", r"model.config.attn_pdrop: weights of attention are dropped on CPUs alone so far; set it to 0, or"),
            (LLAMA, "cuda", r"model.config.attention_dropout: weights of attention are dropped on CPUs alone so far"))):
        program = s.start(s.config("refused%d.json" % number, model=model, device=device))
        if program.end() == 0:
            raise AssertionError("%r: not refused" % model)
        program.expect(words)


training.main()
