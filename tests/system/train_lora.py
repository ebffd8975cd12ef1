# SPDX-License-Identifier: Apache-2.0
#
# Adapters beside a frozen model: the same losses at any stage and in any world, what is saved of them, and how they come back.

import json
import os
import shutil
import signal

import tap
import training
from training import base, run_words, tensors

LORA = {"r": 4, "alpha": 8, "dropout": 0.1, "target_modules": ["q_proj", "v_proj", "down_proj"]}


def config(s, name, model=training.LLAMA, lora=None, **how):
    return training.beside(s, name, model, LORA if lora is None else lora, **how)


@training.story
def stages_and_worlds(s):
    """stages 0 to 3 and worlds 1 to 4 give the same losses, with dropout, and those of a stage the same bits"""
    first = None
    for world in (1, 2, 3, 4):
        by_stage = []
        for stage in (0, 1, 2, 3):
            c = config(s, "c%d%d.json" % (world, stage), stage=stage, steps=5)
            s.run(c, world=world)
            by_stage.append(s.losses(c))
        first = first or by_stage[0]
        training.close(by_stage[0], first, 1e-5, "world %d against world 1" % world)
        for stage in (1, 2, 3):
            tap.check_equal(by_stage[stage], by_stage[0], "losses of stage %d and 0, world %d" % (stage, world))


@training.story
def magnitudes(s):
    """with magnitudes: the same losses at any stage and in any world, what is saved of them, and how a run goes on from it"""
    lora = {**LORA, "use_dora": True, "plus_ratio": 2}
    plain = config(s, "plain.json", lora={"r": 4, "use_dora": False}, steps=1)
    first = None
    for world, stage in ((1, 0), (2, 3), (2, 1), (3, 2), (3, 3)):
        c = config(s, "c%d%d.json" % (world, stage), lora=lora, stage=stage, steps=4, save_dir=s.path("ckpt%d%d" % (world, stage)), save_every=2)
        program = s.run(c, world=world)
        first = first or s.losses(c)
        training.close(s.losses(c), first, 1e-5, "world %d at stage %d against world 1" % (world, stage))
    tap.check_equal(any("DoRA of rank 4, alpha 8" in line for line in program.lines), True, "what it says of itself")
    saved = s.path("ckpt33", "step-00000002")
    with open(os.path.join(saved, "adapter_config.json"), encoding="utf-8") as f:
        tap.check_equal(json.load(f)["use_dora"], True, "use_dora")
    found = tensors(os.path.join(saved, "adapter_model.safetensors"))
    tap.check_equal(len(found), 3 * 3 * 2, "tensors")
    tap.check_equal(found["base_model.model.model.layers.1.self_attn.v_proj.lora_magnitude_vector"], [24], "shape")
    s.run(c, "--resume", saved, "--set", "train.save_dir=" + s.path("again"), world=2)
    training.close(s.losses(c), first, 1e-5, "behind a resume in another world")
    program = s.start(c, "--set", "lora.use_dora=false", "--set", "train.steps=6", world=0)
    tap.check_equal(program.end() != 0 and any("lora.use_dora 1, this run's has 0" in line for line in program.lines), True, program.lines)
    said = run_words(s, "--estimate", c, "--world", "1")
    tap.check_equal("adapters and magnitudes of rank 4" in said, True, said)
    fresh = config(s, "fresh.json", lora={**lora, "dropout": 0}, steps=1)
    for options in ((), ("--set", "bf16.enabled=true"), ("--set", "lora.base=nf4")):
        s.run(plain, *options, world=0)
        s.run(fresh, *options, world=2)
        training.close(s.losses(fresh), s.losses(plain), 1e-6, "before anything is learned, with %r" % (options,))


@training.story
def ranks_of_layers(s):
    """layers with ranks and alphas of their own, also in one block: the same at any stage and in any world, saved, gone on with and merged"""
    lora = {"r": 4, "alpha": 8, "target_modules": LORA["target_modules"], "rank_pattern": {"model.layers.1.self_attn.q_proj": 7, "[qv]_proj": 2},
            "alpha_pattern": {"down_proj": 3}}
    first = None
    for world, stage in ((1, 0), (2, 3), (3, 2)):
        c = config(s, "c%d.json" % world, lora=lora, stage=stage, steps=4, save_dir=s.path("ckpt%d" % world), save_every=2)
        program = s.run(c, world=world)
        first = first or s.losses(c)
        training.close(s.losses(c), first, 1e-5, "world %d at stage %d against world 1" % (world, stage))
    tap.check_equal(any("LoRA of rank 2 to 7, alpha 3 to 8:" in line for line in program.lines), True, program.lines)
    saved = s.path("ckpt3", "step-00000002")
    with open(os.path.join(saved, "adapter_config.json"), encoding="utf-8") as f:
        said = json.load(f)
    tap.check_equal(said["rank_pattern"], {"model.layers.0.self_attn.q_proj": 2, "model.layers.1.self_attn.q_proj": 7, "v_proj": 2}, "ranks")
    tap.check_equal(said["alpha_pattern"], {"down_proj": 3}, "alphas")
    found = tensors(os.path.join(saved, "adapter_model.safetensors"))
    tap.check_equal(found["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"], [7, 48], "shape")
    s.run(c, "--resume", saved, "--set", "train.save_dir=" + s.path("again"), world=2)
    training.close(s.losses(c), first, 1e-5, "behind a resume in another world")
    for change, what in (('lora.rank_pattern={"[qv]_proj": 2}', "lora.rank_pattern of a layer 7, this run's has 2"),
                         ("lora.alpha_pattern.down_proj=4", "lora.alpha_pattern of a layer 3, this run's has 4")):
        program = s.start(c, "--set", change, "--set", "train.steps=5", world=0)
        tap.check_equal(program.end() != 0 and any(what in line for line in program.lines), True, program.lines)
    more = config(s, "more.json", lora={"from": s.path("ckpt3")}, steps=4, save_dir=s.path("more"))
    s.run(more, world=1)
    still = ("--set", "optimizer.params.lr=0", "--set", "train.steps=5")
    s.run(more, *still, world=0)
    run_words(s, "merge", s.path("more"), "-o", s.path("merged"))
    whole = s.config("whole.json", model=training.LLAMA, steps=5)
    s.run(whole, *still, "--init-from", s.path("merged"), world=0)
    training.close(s.losses(whole)[-1:], s.losses(more)[-1:], 1e-5, "merged, against both")


@training.story
def saved_as_peft_does(s):
    """a checkpoint is a folder of peft's, with the adapters alone, and the run goes on from it as if it had not ended"""
    whole = config(s, "whole.json", steps=6)
    s.run(whole, world=2)
    c = config(s, "c.json", steps=6, save_dir=s.path("ckpt"), save_every=3)
    s.run(c, world=2)
    saved = s.path("ckpt", "step-00000003")
    s.run(c, "--resume", saved, "--set", "train.save_dir=" + s.path("again"), "--set", "train.seed=77", world=3, status=0)
    training.close(s.losses(c), s.losses(whole), 1e-5, "behind a resume in another world")
    with open(os.path.join(saved, "adapter_config.json"), encoding="utf-8") as f:
        said = json.load(f)
    tap.check_equal(list(said), sorted(said), "order of adapter_config.json")
    for key, wanted in {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "bias": "none",
                        "target_modules": LORA["target_modules"], "fan_in_fan_out": False, "use_rslora": False,
                        "base_model_name_or_path": s.path("base-llama", "step-00000002")}.items():
        tap.check_equal(said[key], wanted, key)
    found = tensors(os.path.join(saved, "adapter_model.safetensors"))
    tap.check_equal(len(found), 2 * 3 * 2, "tensors")
    tap.check_equal(found["base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight"], [24, 4], "shape")
    tap.check_equal(found["base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"], [4, 80], "shape")
    tap.check_equal(os.path.exists(os.path.join(saved, "model.safetensors")), False, "the model is saved too")


@training.story
def beside_another_model(s):
    """adapters that come back beside another folder's model are told of, and beside the same one they are not"""
    c = config(s, "c.json", steps=2, save_dir=s.path("ckpt"))
    s.run(c, world=1)
    other = s.path("other")
    shutil.copytree(s.path("base-llama", "step-00000002"), other)
    for options, steps, told in (((), 3, False), (("--init-from", other), 4, True)):
        program = s.run(c, *options, "--set", "train.steps=%d" % steps, world=2)
        tap.check_equal(any("were trained beside the model in" in line for line in program.lines), told, "what it says of the model")


@training.story
def base_moves_on(s):
    """a base that is trained on meanwhile changes nothing for adapters that come back, from the vault or from a checkpoint"""
    stays = r"model\.weights: .*/step-00000004 is newer than the checkpoint that the adapters in %s were trained beside; the run stays with .*/step-00000002$"
    how = {"steps": training.LONG, "vault_every": 1}
    whole, c = config(s, "whole.json", **how), config(s, "killed.json", **how)
    saving = config(s, "saving.json", steps=2, save_dir=s.path("ckpt"))
    moving = s.path("moving")
    shutil.copytree(base(s), moving)
    beside = ("--set", "model.weights=" + moving)
    s.run(whole, world=2)
    s.run(saving, *beside, world=1)
    program = s.start(c, *beside, world=2, dtrun=("--max-restarts", "2"))
    program.expect(r"^step +5/")
    s.run(s.config("base.json", model=training.LLAMA, steps=4, save_dir=moving), world=0)
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(stays % "the vault")
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")
    for steps in (3, 4):  # once, and then again: the checkpoint names the model that was stayed with
        s.run(saving, *beside, "--set", "train.steps=%d" % steps, world=1).expect(stays % (".*/step-0000000%d" % (steps - 1)))
    with open(s.path("ckpt", "step-00000004", "adapter_config.json"), encoding="utf-8") as f:
        tap.check_equal(json.load(f)["base_model_name_or_path"].endswith("/step-00000002"), True, "the model that is named")
    shutil.rmtree(os.path.join(moving, "step-00000002"))
    program = s.run(saving, *beside, "--set", "train.steps=5", world=1)
    program.expect(r"were trained beside the model in .*/step-00000002; from here on it is the one in .*/step-00000004$")


@training.story
def from_adapters(s):
    """adapters are gone on with by another run, which takes their numbers from their folder"""
    c = config(s, "c.json", steps=12, save_dir=s.path("ckpt"))
    s.run(c, world=1)
    loss = s.losses(c)[-1]
    more = config(s, "more.json", lora={"from": s.path("ckpt")}, steps=2)
    program = s.run(more, world=2)
    tap.check_equal(any("LoRA of rank 4, alpha 8" in line for line in program.lines), True, "what it says of itself")
    if not s.losses(more)[0] < s.losses(c)[0] - 0.5 * (s.losses(c)[0] - loss):
        raise AssertionError("what was learned is lost: %r, %r" % (s.losses(c), s.losses(more)))


@training.story
def from_what_is_gone(s):
    """a run goes on from its own checkpoint though the folder that its adapters began from is gone, and does not begin anew without it"""
    c = config(s, "c.json", lora={**LORA, "use_rslora": True}, steps=2, save_dir=s.path("ckpt"))
    s.run(c, world=0)
    whole = config(s, "whole.json", lora={"from": s.path("ckpt")}, steps=4)
    s.run(whole, world=2)
    more = config(s, "more.json", lora={"from": s.path("ckpt")}, steps=4, save_dir=s.path("more"))
    s.run(more, "--set", "train.steps=2", world=2)
    os.rename(s.path("ckpt"), s.path("gone"))
    program = s.run(more, world=2)
    program.expect(r"lora\.from: there is no .*/ckpt; the adapters are taken to be as in .*/more")
    training.close(s.losses(more), s.losses(whole), 1e-5, "behind a resume without the folder")
    s.run(more, "--resume", "none", world=0, status=2).expect(r"lora\.from: .*/ckpt")
    tap.check_equal(os.path.exists(s.path("more", "step-00000004")), True, "the checkpoint is still there")
    s.run(whole, world=0, status=2).expect(r"lora\.from: there is no folder .*/ckpt")


@training.story
def rescued(s):
    """a job that fails for good saves its last step though the folder that its adapters began from is gone"""
    c = config(s, "c.json", lora={**LORA, "use_dora": True, "rank_pattern": {"layers.1.*q_proj": 3}}, steps=2, save_dir=s.path("ckpt"))
    s.run(c, world=0)
    more = config(s, "more.json", lora={"from": s.path("ckpt")}, steps=training.LONG, save_dir=s.path("more"), vault_every=1)
    program = s.start(more, world=2)
    program.expect(r"^step +3/")
    shutil.rmtree(s.path("ckpt"))
    os.kill(s.workers(program)[1], signal.SIGKILL)
    step = int(program.expect(r"^dtrun-train: step (\d+) is saved in ").group(1))
    tap.check_equal(program.end(), 1, "exit status")
    with open(s.path("more", "step-%08d" % step, "adapter_config.json"), encoding="utf-8") as f:
        said = json.load(f)
    for key, wanted in {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "use_dora": True, "target_modules": LORA["target_modules"],
                        "rank_pattern": {"model.layers.1.self_attn.q_proj": 3}, "alpha_pattern": {}}.items():
        tap.check_equal(said[key], wanted, key)


@training.story
def saved_modules(s):
    """what is trained whole beside adapters begins as the model has it, is saved, resumed and merged, at each stage alike"""
    model = {**training.LLAMA, "tie_word_embeddings": False}
    lora = {"r": 2, "target_modules": ["v_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}
    alone = config(s, "alone.json", model=model, lora={"r": 2}, steps=1)
    s.run(alone, world=1)
    first = None
    for stage in (0, 3):
        c = config(s, "c%d.json" % stage, model=model, lora=lora, stage=stage, steps=4, save_dir=s.path("ckpt%d" % stage), save_every=2)
        s.run(c, world=2)
        first = first or s.losses(c)
        tap.check_equal(s.losses(c), first, "losses at stage %d" % stage)
    training.close(first[:1], s.losses(alone), 1e-5, "the first step, as the model alone")
    s.run(c, "--resume", s.path("ckpt3", "step-00000002"), "--set", "train.save_dir=" + s.path("again"), world=3)
    training.close(s.losses(c), first, 1e-5, "behind a resume")
    found = tensors(s.path("ckpt3", "step-00000004", "adapter_model.safetensors"))
    tap.check_equal(found["base_model.model.lm_head.weight"], [320, 48], "shape of the head")
    still = ("--set", "optimizer.params.lr=0", "--set", "train.steps=5")
    s.run(c, *still, world=0)
    run_words(s, "merge", s.path("ckpt3"), "-o", s.path("merged"))
    whole = s.config("whole.json", model=model, steps=5)
    s.run(whole, *still, "--init-from", s.path("merged"), world=0)
    training.close(s.losses(whole)[-1:], s.losses(c)[-1:], 1e-5, "merged, against both")


@training.story
def killed(s):
    """a rank that is killed costs no step, and no checkpoint is needed for that"""
    for stage in (0, 3):
        how = {"steps": training.LONG, "stage": stage, "vault_every": 1}
        whole, c = config(s, "whole%d.json" % stage, **how), config(s, "killed%d.json" % stage, **how)
        s.run(whole, world=2)
        program = s.start(c, world=2, dtrun=("--max-restarts", "2"))
        program.expect(r"^step +5/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        program.expect(r"^back at step \d+")
        tap.check_equal(program.end(), 0, "exit status")
        tap.check_equal(s.losses(c), s.losses(whole), "losses at stage %d" % stage)


@training.story
def merged(s):
    """merge makes a model of two that has the losses of both together, of any float type; generate and export do the same at once"""
    gemma = {**training.LLAMA, "model_type": "gemma3_text", "head_dim": 12, "query_pre_attn_scalar": 12, "sliding_window": 9}
    for name, model, targets, dora in (("llama", training.LLAMA, LORA["target_modules"], False), ("gpt2", training.GPT2, ["c_attn", "mlp.c_proj"], False),
                                       ("gemma3_text", gemma, LORA["target_modules"], False),
                                       ("dora", training.LLAMA, LORA["target_modules"], True), ("dora2", training.GPT2, ["c_attn", "mlp.c_proj"], True)):
        lora = {"r": 4, "alpha": 16, "target_modules": targets, "use_dora": dora}
        c = config(s, name + ".json", model=model, lora=lora, steps=6, save_dir=s.path("ckpt-" + name))
        s.run(c, world=1)
        out = s.path("merged-" + name)
        still = ("--set", "optimizer.params.lr=0", "--set", "train.steps=7")
        s.run(c, *still, world=0)
        wanted = s.losses(c)[-1]
        run_words(s, "merge", s.path("ckpt-" + name), "-o", out)
        whole = s.config("whole-%s.json" % name, model=model, steps=7)
        s.run(whole, *still, "--init-from", out, world=0)
        training.close([s.losses(whole)[-1]], [wanted], 1e-5, "merged, against both")
        s.run(whole, *still, "--init-from", base(s, model), world=0)
        if abs(s.losses(whole)[-1] - wanted) < 1e-3:
            raise AssertionError("the adapters change nothing: %g" % wanted)
        if dora:
            continue
        said = run_words(s, "merge", s.path("base-" + name), "-o", out + "-none", status=2)
        tap.check_equal("has no adapters" in said, True, said)
        s.run(s.config("half.json", model=model, steps=2, bf16={"enabled": True}, save_dir=s.path("half-" + name)), world=0)
        said = run_words(s, "merge", s.path("ckpt-" + name), "--init-from", s.path("half-" + name), "-o", out + "-half")
        tap.check_equal("the adapters of %d layers in" % (2 * len(targets)) in said, True, said)
        with open(out + "-half/model.safetensors", "rb") as f:
            tap.check_equal(b'"BF16"' in f.read(4096), True, "a bf16 model stays one")
        ask = ("--prompt", "A node that", "--max-new-tokens", "12", "--temperature", "0")
        texts = [run_words(s, "generate", folder, *ask).split("dtrun-train: prompt")[0].splitlines()[-1]
                 for folder in (out, s.path("ckpt-" + name))]
        tap.check_equal(texts[1], texts[0], "what both say")
        run_words(s, "export", s.path("ckpt-" + name), "--to", "gguf", "-o", s.path(name + ".gguf"))
        run_words(s, "export", out, "--to", "gguf", "-o", s.path(name + "-merged.gguf"))
        with open(s.path(name + ".gguf"), "rb") as a, open(s.path(name + "-merged.gguf"), "rb") as b:
            tap.check_equal(a.read() == b.read(), True, "files for llama.cpp")


@training.story
def beside_nf4(s):
    """a model in NF4 gives the same losses at stages and worlds, comes back, takes a folder so packed, and is what adapters merge into"""
    lora, ckpt = {**LORA, "dropout": 0, "base": "nf4"}, s.path("ckpt")
    full = config(s, "full.json", steps=6)
    s.run(full, world=1)
    first = None
    for world in (1, 2):
        for stage in (0, 2, 3):
            c = config(s, "c%d%d.json" % (world, stage), lora=lora, stage=stage, steps=6, save_dir=ckpt, save_every=3)
            s.run(c, "--resume", "none", world=world)
            first = first or s.losses(c)
            training.close(s.losses(c), first, 1e-5, "stage %d, world %d" % (stage, world))
    if abs(s.losses(full)[0] - first[0]) < 1e-4:
        raise AssertionError("NF4 changes nothing: %r" % first)
    saved = os.path.join(ckpt, "step-00000003")
    s.run(c, "--resume", saved, "--set", "train.save_dir=" + s.path("again"), world=2)
    training.close(s.losses(c)[-3:], first[-3:], 1e-5, "behind a resume")
    program = s.run(full, "--resume", saved, "--set", "train.save_dir=" + s.path("wide"), world=1)
    tap.check_equal(any("were trained beside an NF4 model" in line for line in program.lines), True, "what it says of the model")
    packed = s.path("packed")
    run_words(s, "export", base(s), "--to", "hf", "--dtype", "nf4", "-o", packed)
    s.run(c, "--resume", "none", "--init-from", packed, "--set", "train.save_dir=" + s.path("of-packed"), world=2)
    training.close(s.losses(c), first, 1e-5, "beside a folder that was packed before")
    still = ("--set", "optimizer.params.lr=0", "--set", "train.steps=7")
    dora = config(s, "dora.json", lora={**lora, "use_dora": True}, steps=6, save_dir=s.path("dora"))
    s.run(dora, world=1)
    for of, c in ((ckpt, c), (s.path("of-packed"), c), (s.path("dora"), dora)):
        s.run(c, *still, "--resume", os.path.join(of, "step-00000006"), "--set", "train.save_dir=" + s.path("still"), world=0)
        out = of + "-merged"
        said = run_words(s, "merge", of, "-o", out)
        tap.check_equal("as NF4 leaves these" in said, True, said)
        whole = s.config("whole.json", model=training.LLAMA, steps=7)
        s.run(whole, *still, "--init-from", out, world=0)
        training.close(s.losses(whole)[-1:], s.losses(c)[-1:], 1e-5, "merged, against both")
    said = run_words(s, "export", ckpt, "--to", "hf", "--dtype", "nf4", "-o", s.path("never"), status=2)
    tap.check_equal("has adapters, and what they learned is lost" in said, True, said)


@training.story
def what_cannot_be(s):
    """adapters without a model, a checkpoint of the other kind, and other numbers than the checkpoint has are refused by name"""
    c = config(s, "c.json", steps=2, save_dir=s.path("ckpt"))
    s.run(c, world=1)
    rows = [
        (["--set", "model.weights="], "lora: which model is adapted"),
        (["--set", "lora.r=8"], "adapter_config.json: the checkpoint's model has lora.r 4, this run's has 8"),
        (["--set", "lora.alpha=9"], "has lora.alpha 8, this run's has 9"),
        (["--resume", s.path("base-llama", "step-00000002")], "holds a whole model, and this run trains adapters"),
        (["--resume", "none", "--set", "train.save_dir=" + s.path("base-llama")], "a checkpoint in its own train.save_dir"),
        (["--resume", "none", "--init-from", s.path("ckpt"), "--set", "train.save_dir=" + s.path("on-top")], "has adapters and no model"),
    ]
    for options, wanted in rows:
        program = s.start(c, *options, "--set", "train.steps=4", world=0)
        if program.end() == 0 or not any(wanted in line for line in program.lines):
            raise AssertionError("%r said\n%s" % (options, "\n".join(program.lines)))
    tap.check_equal(os.path.exists(s.path("base-llama", "step-00000002")), True, "the model that a run begins from is where it was")
    tap.check_equal(s.checkpoints(s.path("ckpt")), ["step-00000002"], "checkpoints that no run that is refused has moved")


if __name__ == "__main__":
    training.main()
