# SPDX-License-Identifier: Apache-2.0
#
# Adapters of a model that ranks share: the losses and the files of one rank, checkpoints for any other mesh, and what becomes of
# them behind a kill.

import os

import tap
import training
from training import beside, run_words, tensors

GPT2 = {**training.GPT2, "n_head": 4, "n_layer": 3}
LLAMA = {**training.LLAMA, "num_hidden_layers": 4}
TIED = {**LLAMA, "tie_word_embeddings": True}
ALL = {"r": 4, "alpha": 8, "dropout": 0.1}
SAVING = {**ALL, "modules_to_save": ["embed_tokens", "lm_head"], "rank_pattern": {"layers.1.*q_proj": 3}}


def bytes_of(*names):
    with open(os.path.join(*names), "rb") as f:
        return f.read()


@training.story
def stages_have_the_same_bits(s):
    """2 to 4 stages have the bits of one rank, and save its file: with dropout, modules that are saved, magnitudes, a tied head, or NF4"""
    chunks = {"schedule": "interleaved", "chunks": 2}
    rows = ((LLAMA, SAVING, 2, 1, 0, {}), (TIED, ALL, 4, 1, 1, {}), (GPT2, ALL, 3, 1, 2, {}), (LLAMA, {**ALL, "use_dora": True}, 2, 2, 1, chunks),
            (LLAMA, {**ALL, "base": "nf4"}, 2, 1, 1, {}), (GPT2, {**ALL, "base": "nf4", "use_rslora": True}, 2, 1, 0, {}))
    for number, (model, lora, pipeline, data, stage, how) in enumerate(rows):
        more = {"accumulation": 2, "steps": 5, "data": {"validation": s.data}, "validate_every": 5, "validation_batches": 2}
        alone = beside(s, "alone%d.json" % number, model, lora, stage=stage, save_dir=s.path("alone%d" % number), **more)
        wanted = s.run(alone, world=data).expect(r"validation\D*([\d.]+)").group(1)
        c = beside(s, "stages%d.json" % number, model, lora, stage=stage, save_dir=s.path("stages%d" % number),
                   parallel={"pipeline": pipeline, **how}, **more)
        program = s.run(c, world=data * pipeline)
        what = "row %d, %d stages" % (number, pipeline)
        tap.check_equal(program.says(r"^a pipeline of %d stages" % pipeline), True, what)
        tap.check_equal(s.losses(c), s.losses(alone), "losses, " + what)
        tap.check_equal(s.norms(c), s.norms(alone), "norms, " + what)
        tap.check_equal(program.expect(r"validation\D*([\d.]+)").group(1), wanted, "validation, " + what)
        saved = [bytes_of(s.path(name + str(number)), "step-00000005", "adapter_model.safetensors") for name in ("alone", "stages")]
        tap.check_equal(saved[1] == saved[0], True, "the same file, " + what)
        os.rename(s.path("base-" + model["model_type"]), s.path("base-%d" % number))  # the next row's may be of another size


@training.story
def cut_layers_have_the_same_losses(s):
    """2 and 4 ranks that share each layer have the losses of one: with dropout, saved modules, shared rows, samples or heads, and 16 bits"""
    two = {**LLAMA, "num_key_value_heads": 2}
    odd = {**GPT2, "vocab_size": 321}
    rows = ((two, SAVING, {"tensor": 2}, 1, 0, {}), (two, ALL, {"tensor": 4}, 1, 1, {}), (odd, ALL, {"tensor": 2}, 2, 2, {}),
            (GPT2, {**ALL, "use_rslora": True}, {"tensor": 4, "sequence": True}, 1, 0, {}),
            (two, SAVING, {"tensor": 2, "sequence": True}, 2, 3, {"activation_checkpointing": {}}),
            (two, ALL, {"tensor": 2, "context": 2}, 1, 3, {}), (GPT2, ALL, {"tensor": 2, "context": 2, "sequence": True}, 1, 1, {}),
            (two, {**ALL, "target_modules": ["o_proj", "down_proj"], "plus_ratio": 4}, {"tensor": 2, "pipeline": 2}, 1, 1, {}),
            (two, ALL, {"tensor": 2}, 1, 1, {"bf16": {"enabled": True}}))
    for number, (model, lora, parallel, data, stage, how) in enumerate(rows):
        more = {"accumulation": 2, "steps": 5, "data": {"validation": s.data}, "validate_every": 5, "validation_batches": 2, **how}
        alone = beside(s, "alone%d.json" % number, model, lora, **more)
        wanted = s.run(alone).expect(r"validation\D*([\d.]+)").group(1)
        c = beside(s, "cut%d.json" % number, model, lora, stage=stage, parallel=parallel, **{**more, "accumulation": 2 // data})
        program = s.run(c, world=data * parallel["tensor"] * parallel.get("pipeline", 1) * parallel.get("context", 1))
        what = "row %d, %r" % (number, parallel)
        half = "bf16" in how
        training.close(s.losses(c), s.losses(alone), 1e-3 if half else 1e-5, "losses, " + what)
        training.close(s.norms(c), s.norms(alone), 1e-2 if half else 1e-4, "norms, " + what)
        training.close([float(program.expect(r"validation\D*([\d.]+)").group(1))], [float(wanted)], 1e-3, "validation, " + what)
        os.rename(s.path("base-" + model["model_type"]), s.path("base-%d" % number))


def goes_on(s, model, lora, meshes):
    """A run in all of MESHES, a step in each, and what the last one saved."""
    folder, name = s.path("saved-" + model["model_type"]), model["model_type"]
    whole = beside(s, name + ".json", model, lora, steps=len(meshes), accumulation=2, save_dir=s.path("whole-" + name))
    s.run(whole)
    for step, (parallel, world, stage) in enumerate(meshes):
        c = beside(s, "%s%d.json" % (name, step), model, lora, steps=len(meshes), accumulation=2, stage=stage, save_dir=folder, parallel=parallel)
        program = s.run(c, "--set", "train.steps=%d" % (step + 1), world=world)
        if step:
            program.expect(r"resumed from .*: step %d$" % step)
        training.close(s.losses(c), s.losses(whole)[step:step + 1], 1e-5, "%s, step %d in %r" % (name, step + 1, parallel))
    return whole, folder


MESHES = (({}, 1, 0), ({"tensor": 2}, 2, 0), ({"pipeline": 2}, 2, 2), ({"tensor": 4}, 4, 1), ({}, 2, 3), ({"tensor": 2, "sequence": True}, 4, 3),
          ({"pipeline": 3}, 3, 0), ({"tensor": 2, "pipeline": 2}, 4, 2), ({"pipeline": 2, "context": 2}, 4, 1), ({}, 1, 1))


@training.story
def any_mesh_goes_on(s):
    """adapters go on in any mesh, at any ZeRO stage, and what is merged and exported of them is what one rank's are"""
    for model, lora in ((LLAMA, SAVING), (GPT2, ALL)):
        whole, folder = goes_on(s, model, lora, MESHES)
        last, other = (s.path(kind + "-" + model["model_type"]) for kind in ("saved", "whole"))
        found = [tensors(os.path.join(path, "step-%08d" % len(MESHES), "adapter_model.safetensors")) for path in (last, other)]
        tap.check_equal(found[0], found[1], "tensors")
        still = ("--set", "optimizer.params.lr=0", "--set", "train.steps=%d" % (len(MESHES) + 1))
        losses = []
        for number, path in enumerate((last, other)):
            run_words(s, "merge", path, "-o", path + "-merged")
            run_words(s, "export", path, "--to", "gguf", "-o", path + ".gguf")
            c = s.config("merged%d.json" % number, model=model, steps=1)
            s.run(c, *still, "--init-from", path + "-merged", world=0)
            losses.append(s.losses(c)[-1])
        training.close(losses[:1], losses[1:], 1e-5, "merged")
        tap.check_equal(os.path.getsize(last + ".gguf"), os.path.getsize(other + ".gguf"), "size of what is exported")


@training.story
def begins_from_a_folder(s):
    """ranks that share a model begin with their parts of the adapters of a folder of peft's"""
    c = beside(s, "c.json", LLAMA, SAVING, steps=3, save_dir=s.path("ckpt"))
    s.run(c)
    alone = beside(s, "alone.json", LLAMA, {"from": s.path("ckpt")}, steps=3)
    s.run(alone)
    for parallel in ({"pipeline": 2}, {"tensor": 2}):
        shared = beside(s, "shared.json", LLAMA, {"from": s.path("ckpt")}, steps=3, parallel=parallel)
        s.run(shared, world=2)
        training.close(s.losses(shared), s.losses(alone), 1e-5, "losses of %r" % parallel)


@training.story
def comes_back(s):
    """a rank that is killed costs no step"""
    for number, (parallel, world) in enumerate((({"pipeline": 2}, 4), ({"tensor": 2}, 4))):
        alone = beside(s, "alone%d.json" % number, LLAMA, ALL, steps=20, accumulation=2)
        s.run(alone, world=2)
        c = beside(s, "killed%d.json" % number, LLAMA, ALL, steps=20, accumulation=2, vault_every=1, parallel=parallel)
        s.run_killed(c, world, 3)
        training.close(s.losses(c), s.losses(alone), 1e-5, "%r, one of which was killed" % parallel)


training.main()
