# SPDX-License-Identifier: Apache-2.0
#
# Ranks with a GPU each that share the positions of each sample: the losses of one rank, checkpoints for any other mesh, and one
# that is killed. As train_cuda.py has them, on real GPUs or mock ones.

import tap
import training
from gpus import gpus, why_not

GPT2 = {**training.GPT2, "n_head": 4}
# Heads that tensor cores take in bfloat16, and two query heads to one of keys.
LLAMA = {**training.LLAMA, "hidden_size": 128, "head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
MISTRAL = {**training.LLAMA, "model_type": "mistral", "max_position_embeddings": 64, "sliding_window": 20}
SIZE = {"batch": 4, "steps": 3}
# A mock GPU so does its work as late as it may: what should wait for keys, and does not, is done before them.
LATE = {"DT_EMULATOR_LAZY": "60000"}


def shared(s, name, parallel, device="cuda", **how):
    return s.config(name, device=device, parallel=parallel, **{**SIZE, **how})


@training.story
def same_losses(s):
    """two and four ranks to a sample, by keys and by heads, alone, with others beside them, to a block and to some layers: those of a CPU"""
    chunks = {"pipeline": 2, "schedule": "interleaved", "chunks": 2}
    deep = {**GPT2, "n_layer": 4}
    for name, model, more, rows in (
            ("gpt2", GPT2, {}, ((4, {"context": 4}, 1, {}), (2, {"context": 2, "context_by": "heads"}, 0, LATE))),
            ("llama", LLAMA, {}, ((2, {"context": 2}, 0, LATE), (4, {"context": 2}, 3, {}), (4, {"context": 2, "tensor": 2}, 2, {}),
                                  (4, {"context": 2, "context_by": "heads"}, 2, {}))),
            ("deep", deep, {"accumulation": 2}, ((4, {"context": 2, **chunks}, 1, {}),))):
        alone = shared(s, name + ".json", {}, "cpu", model=model, **more)
        s.run(alone)
        for number, (world, parallel, stage, late) in enumerate(rows):
            what = "%s: %d ranks, %s, stage %d" % (name, world, parallel, stage)
            c = shared(s, "%s%d.json" % (name, number), parallel, model=model, stage=stage, **more)
            program = s.run(c, world=world, env={**gpus(world), **late})
            program.expect(r"^%d ranks share each sample, %d tokens of it each" % (parallel["context"], 32 // parallel["context"]))
            tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
            training.close(s.losses(c), s.losses(alone), 1e-5, what)
            training.close(s.norms(c), s.norms(alone), 1e-5, "norms, " + what)


@training.story
def documents(s):
    """documents that end within pieces, a window, blocks gone through again, and a validation: the losses of a CPU"""
    more = {"model": MISTRAL, "batch": 8, "accumulation": 2, "activation_checkpointing": {}, "validate_every": 3, "validation_batches": 2,
            **training.conversations(s)}
    validated = r"validation\D*([\d.]+)"
    alone, c = shared(s, "alone.json", {}, "cpu", **more), shared(s, "packed.json", {"context": 2}, stage=2, **more)
    wanted = float(s.run(alone).expect(validated).group(1))
    program = s.run(c, world=2, env=gpus(2))
    training.close(s.losses(c), s.losses(alone), 1e-5, "losses")
    training.close([float(program.expect(validated).group(1))], [wanted], 1e-4, "validation")


@training.story
def halves(s):
    """in bfloat16, what keys gather summed in it or in float: the losses of a CPU within 1 %"""
    more = {"model": LLAMA, "bf16": {"enabled": True}}
    alone = shared(s, "alone.json", {}, "cpu", **more)
    s.run(alone)
    for name, words in (("narrow", ()), ("wide", ("--set", "communication_data_type=fp32"))):
        c = shared(s, name + ".json", {"context": 2}, stage=1, **more)
        s.run(c, *words, world=2, env=gpus(2))
        training.close(s.losses(c), s.losses(alone), 0.01, name)


@training.story
def pairs(s):
    """adapters that learn which of two answers is preferred: the losses of a CPU"""
    base = s.path("base")
    s.run(shared(s, "base.json", {}, "cpu", model=MISTRAL, steps=1, save_dir=base))
    data = training.pairs(s)
    data["sequence_length"] = 64
    more = {"model": MISTRAL, "lora": {"r": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}, "dpo": {"beta": 0.2}, "data": data}
    alone, c = shared(s, "alone.json", {}, "cpu", **more), shared(s, "shared.json", {"context": 2}, stage=2, **more)
    s.run(alone, "--init-from", base)
    s.run(c, "--init-from", base, world=2, env=gpus(2))
    training.close(s.losses(c), s.losses(alone), 1e-5, "losses")


@training.story
def any_mesh_goes_on(s):
    """a checkpoint of ranks that share samples goes on on a CPU, where others share them by heads, and on one GPU"""
    total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 4}}}
    whole = shared(s, "whole.json", {}, "cpu", model=LLAMA, **{**total, "steps": 4})
    s.run(whole)
    rows = ((2, {"context": 2}, "cuda", 3), (1, {}, "cpu", 0), (4, {"context": 2, "context_by": "heads"}, "cuda", 1), (1, {}, "cuda", 0))
    for step, (world, parallel, device, stage) in enumerate(rows):
        c = shared(s, "%d.json" % step, parallel, device, model=LLAMA, stage=stage, save_dir=s.path("saved"), **{**total, "steps": step + 1})
        program = s.run(c, world=world, env=gpus(world))
        if step > 0:
            program.expect(r"resumed from .*: step %d$" % step)
        training.close(s.losses(c), s.losses(whole)[step:step + 1], 1e-5, "step %d" % (step + 1))


@training.story
def a_peer_killed(s):
    """of two ranks that share each sample one is killed with -9: the job goes on from the vault, and no step is lost"""
    how = {"model": GPT2, "steps": 8, "vault_every": 1, "stage": 2}
    whole, c = shared(s, "whole.json", {}, "cpu", **how), shared(s, "killed.json", {"context": 2}, **how)
    s.run(whole)
    s.run_killed(c, 2, 1, step=3, env=gpus(2))
    training.close(s.losses(c), s.losses(whole), 1e-5, "with a rank killed, and without")


if why_not():
    tap.skip_all(why_not())
training.main()
