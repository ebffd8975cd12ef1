# SPDX-License-Identifier: Apache-2.0
#
# Ranks with a GPU each that share the tensors of each block: the losses of one rank, checkpoints for any other world, and one
# that is killed. As train_cuda.py has them, on real GPUs or mock ones.

import os
import shutil

import tap
import training
from gpus import gpus, why_not

# Words that two and four ranks do not share evenly.
GPT2 = {**training.GPT2, "n_head": 4, "vocab_size": 321}
QWEN3 = {**training.LLAMA, "model_type": "qwen3", "tie_word_embeddings": True, "vocab_size": 323, "head_dim": 12}
SIZE = {"batch": 4, "accumulation": 1, "steps": 3}
# A mock GPU so does its work as late as it may: what should wait for a sum, and does not, is done before it.
LATE = {"DT_EMULATOR_LAZY": "60000"}
BF16 = {"bf16": {"enabled": True}}


def cut(s, name, tensor, device="cuda", sequence=False, **how):
    return s.config(name, device=device, parallel={"tensor": tensor, "sequence": sequence}, **{**SIZE, **how})


@training.story
def same_losses(s):
    """two ranks to a block, and four, which are more than there are key-value heads, that share rows, too, or not: the losses and norms of a CPU"""
    for name, model, rows in (("gpt2", GPT2, ((2, 2, 0, False, LATE), (4, 2, 2, True, {}))),
                              ("llama", training.LLAMA, ((2, 2, 0, False, {}), (2, 2, 1, True, LATE))),
                              ("qwen3", QWEN3, ((4, 4, 3, False, LATE),))):
        alone = cut(s, name + ".json", 1, "cpu", model=model)
        s.run(alone)
        for world, tensor, stage, sequence, late in rows:
            what = "%s: %d ranks, %d to a block, stage %d" % (name, world, tensor, stage)
            c = cut(s, "%s%d%d%d.json" % (name, world, tensor, stage), tensor, sequence=sequence, model=model, stage=stage)
            program = s.run(c, world=world, env={**gpus(world), **late})
            program.expect(r"^%d ranks share each block%s; %d such team" % (tensor, ", and the rows between blocks" if sequence else "", world // tensor))
            tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
            training.close(s.losses(c), s.losses(alone), 1e-5, what)
            training.close(s.norms(c), s.norms(alone), 1e-5, "norms, " + what)


@training.story
def halves(s):
    """in bfloat16, blocks gone through again, sums in bfloat16 or in float, and a validation: the losses of a CPU within 1 %"""
    more = {"model": training.LLAMA, "accumulation": 2, "activation_checkpointing": {}, "data": {"validation": s.data}, "validate_every": 2, **BF16}
    validated = r"step 2/3  validation loss ([\d.]+)"
    alone = cut(s, "alone.json", 1, "cpu", **more)
    wanted = float(s.run(alone).expect(validated).group(1))
    for name, words in (("narrow", ()), ("wide", ("--set", "communication_data_type=fp32"))):
        c = cut(s, name + ".json", 2, sequence=name == "wide", **more)
        program = s.run(c, *words, world=2, env=gpus(2))
        training.close(s.losses(c), s.losses(alone), 0.01, name)
        training.close([float(program.expect(validated).group(1))], [wanted], 0.01, "validation, " + name)


@training.story
def offloaded(s):
    """with the optimizer in the host's memory, and parameters too: the losses without"""
    rows = ((2, 2, {"stage": 1}), (4, 4, {"stage": 3, "offload_param": {"device": "cpu"}}))
    alone = cut(s, "alone.json", 1, "cpu", model=QWEN3)
    s.run(alone)
    for world, tensor, zero in rows:
        c = cut(s, "%d.json" % world, tensor, model=QWEN3, zero_optimization={"offload_optimizer": {"device": "cpu"}, **zero})
        program = s.run(c, world=world, env=gpus(world))
        tap.check_equal(program.says(r"of the host's memory in each rank for what is offloaded$"), True, "that it is")
        training.close(s.losses(c), s.losses(alone), 1e-5, "%d ranks" % world)


@training.story
def any_world_goes_on(s):
    """a checkpoint of two ranks to a block goes on on one GPU, on a CPU, and in two pairs, and one of a CPU does in pairs"""
    total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 3}}}
    whole = cut(s, "whole.json", 1, "cpu", model=GPT2, **total)
    s.run(whole)
    rows = {"pair": (2, 2, "cuda", 0), "gpu": (1, 1, "cuda", 0), "cpu": (1, 1, "cpu", 0), "pairs": (4, 2, "cuda", 2)}
    for before, then in (("pair", "gpu"), ("pair", "cpu"), ("pair", "pairs"), ("cpu", "pairs")):
        folder = s.path("begun-by-" + before)
        for name, steps in ((before, 2), (then, 3)):
            world, tensor, device, stage = rows[name]
            if name == before and os.path.exists(folder):
                continue
            into = folder if name == before else s.path("%s-then-%s" % (before, then))
            if name == then:
                shutil.copytree(folder, into)
            c = cut(s, "%s-%s-%d.json" % (before, then, steps), tensor, device, model=GPT2, stage=stage, save_dir=into,
                    **{**total, "steps": steps})
            program = s.run(c, world=world, env=gpus(world))
        program.expect(r"resumed from .*: step 2$")
        training.close(s.losses(c), s.losses(whole)[2:], 1e-5, "%s, then %s" % (before, then))


@training.story
def a_peer_killed(s):
    """of two ranks that share each block one is killed with -9: the job goes on from the vault, and no step is lost"""
    how = {"model": training.LLAMA, "steps": 8, "vault_every": 1}
    whole, c = cut(s, "whole.json", 1, "cpu", **how), cut(s, "killed.json", 2, **how)
    s.run(whole)
    s.run_killed(c, 2, 1, step=3, env=gpus(2))
    training.close(s.losses(c), s.losses(whole), 1e-5, "with a rank killed, and without")


if why_not():
    tap.skip_all(why_not())
training.main()
