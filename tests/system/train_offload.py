# SPDX-License-Identifier: Apache-2.0
#
# dtrun-train on a GPU with its optimizer in the host's memory, as DeepSpeed's files ask for it, does what it does without.

import json
import os
import signal

import tap
import training
from gpus import gpus, why_not

SIZE = {"batch": 4, "accumulation": 1}
DEEPSPEED_BF16 = {"bf16": {"enabled": True}}
OFFLOADED = r"^\S+ \wi?B of the host's memory in each rank for what is offloaded$"
OFFLOAD = {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
# The files of LLaMA-Factory's examples that offload, key by key.
FACTORY = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "zero_allow_untested_optimizer": True,
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": "auto"},
}
FACTORY_2 = {"stage": 2, **OFFLOAD, "allgather_partitions": True, "allgather_bucket_size": 5e8, "overlap_comm": False, "reduce_scatter": True,
             "reduce_bucket_size": 5e8, "contiguous_gradients": True, "round_robin_gradients": True}
FACTORY_3 = {"stage": 3, **OFFLOAD, "offload_param": {"device": "cpu", "pin_memory": True}, "overlap_comm": False, "contiguous_gradients": True,
             "sub_group_size": 1e9, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
             "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
             "stage3_gather_16bit_weights_on_model_save": True}


def zero(stage, offload):
    return {"zero_optimization": {"stage": stage, **(OFFLOAD if offload else {})}}


def with_and_without(s, name, world, stage, most, **how):
    """Losses with offloading, which are those without to MOST."""
    losses = []
    for offload in (False, True):
        c = s.config("%s-%d.json" % (name, offload), model=training.LLAMA, device="cuda", **{**SIZE, **how}, **zero(stage, offload))
        program = s.run(c, world=world, env=gpus(world))
        tap.check_equal(program.says(OFFLOADED), offload, "that it is")
        losses.append(s.losses(c))
    training.close(losses[1], losses[0], most, name)
    return losses[1]


@training.story
def floats(s):
    """in float, a rank alone at stage 2 and two micro-steps: the losses of an optimizer in the GPU to 1e-6"""
    losses = with_and_without(s, "floats", 1, 2, 1e-6, steps=6, accumulation=2)
    if not losses[-1] < losses[0] - 0.05:
        raise AssertionError("the model learned nothing: %r" % losses)


@training.story
def halves(s):
    """in bfloat16, two ranks, at stages 1 and 2: the losses without to 1e-4, and to 1e-3 where micro-steps are added behind ranks"""
    with_and_without(s, "stage1", 2, 1, 1e-4, steps=3, **DEEPSPEED_BF16)
    with_and_without(s, "stage2", 2, 2, 1e-3, steps=3, accumulation=2, **DEEPSPEED_BF16)


@training.story
def overflows(s):
    """with fp16 a step that overflows is left out, and the scale and the losses of what follows are those without"""
    with_and_without(s, "fp16", 1, 2, 1e-6, steps=5, fp16={"enabled": True, "initial_scale_power": 20, "hysteresis": 1})
    skipped = [[row["skipped"] for _, row in sorted(s.steps(s.path("fp16-%d.json" % offload)).items())] for offload in (False, True)]
    tap.check_equal(skipped[1], skipped[0], "steps that are left out, offloaded and not")
    tap.check_equal((skipped[1][0], False in skipped[1]), (True, True), "that the first is left out, and not all are, of %r" % skipped)


@training.story
def factory(s):
    """LLaMA-Factory's files run as they are, with adapters beside a model in floats or in NF4, and with all weights: the losses without"""
    base = s.path("base")
    s.run(s.config("base.json", model=training.LLAMA, device="cpu", steps=1, save_dir=base, **SIZE), world=0)
    rows = (("adapters, stage 2", FACTORY_2, 1, 1e-6, {"lora": {"r": 4}}),
            ("adapters beside NF4, stage 3", FACTORY_3, 1, 1e-6, {"lora": {"r": 4, "base": "nf4"}}),
            ("all weights in bfloat16, stage 3", FACTORY_3, 2, 1e-4, DEEPSPEED_BF16))
    for name, block, world, most, how in rows:
        with open(s.path("ds.json"), "w", encoding="utf-8") as f:
            json.dump({**FACTORY, "zero_optimization": block}, f)
        losses = []
        for offload in (False, True):
            c = s.config("%d.json" % offload, model=training.LLAMA, device="cuda", steps=3, zero_optimization={"stage": block["stage"]}, **SIZE, **how)
            program = s.run(c, "--init-from", base, *(("--deepspeed", s.path("ds.json")) if offload else ()), world=world, env=gpus(world))
            tap.check_equal(program.says(OFFLOADED), offload, "that it is offloaded")
            losses.append(s.losses(c))
            os.unlink(c + ".jsonl")
        training.close(losses[1], losses[0], most, name)


@training.story
def resumed(s):
    """a checkpoint goes on with the bits of a run that nobody stopped, and on a GPU that keeps its optimizer within 1e-6"""
    # A mock GPU so does its work as late as it may: what should wait for a copy, and does not, is done before it.
    env = {**gpus(1), "DT_EMULATOR_LAZY": "60000"}
    how = {"steps": 4, "device": "cuda", "save_every": 2, "keep_last": 0, "save_dir": s.path("ckpt"), **SIZE}
    whole = s.config("whole.json", **zero(2, True), **how)
    s.run(whole, env=env)
    for offload in (True, False):
        c = s.config("again-%d.json" % offload, **zero(2, offload), **{**how, "save_dir": s.path("again-%d" % offload)})
        s.run(c, "--resume", s.path("ckpt", "step-00000002"), env=env).says(r"resumed from .*: step 2")
        if offload:
            tap.check_equal(s.losses(c), s.losses(whole)[2:], "losses from step 2 on")
        training.close(s.losses(c), s.losses(whole)[2:], 1e-6, "losses from step 2 on")


@training.story
def killed(s):
    """of two ranks one is killed with -9: it comes back from the vault and no bit is lost"""
    how = {"steps": 6, "device": "cuda", "vault_every": 1, **SIZE, **zero(2, True)}
    whole, c = s.config("whole.json", **how), s.config("killed.json", **how)
    s.run(whole, world=2, env=gpus(2))
    program = s.start(c, world=2, dtrun=("--max-restarts", "1"), env=gpus(2))
    program.expect(r"^step +2/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    tap.check_equal(program.says(r"^back at step \d+"), True, "that it is back; it said\n" + "\n".join(program.lines))
    tap.check_equal(s.losses(c), s.losses(whole), "losses with a rank killed, and without")


@training.story
def refused(s):
    """what stays on a GPU is refused by name, however the run came to be there, and is taken on a CPU; stage 0 has nothing to offload"""
    rows = (({"activation_checkpointing": {"cpu_checkpointing": True}}, r"cpu_checkpointing: activations stay in a GPU's memory"),
            ({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}, r"offload_param wants offload_optimizer beside it on a GPU"),
            ({"zero_optimization": {"stage": 0, **OFFLOAD}}, r"offload_optimizer wants stage 1, 2 or 3 on a GPU"))
    for block, why in rows:
        for device in ("cuda", "auto"):
            c = s.config("c.json", device=device, steps=1, **SIZE, **block)
            s.run(c, env=gpus(1), world=0, status=2).expect(why)
        program = s.start_words([s.tools.train, "--estimate", c], gpus(1))
        program.expect(why)
        tap.check_equal((program.end(), program.says("stage  ")), (2, False), "what --estimate says of it")
    s.run(s.config("c.json", device="cpu", steps=1, **SIZE, **rows[1][0]), world=0)


if why_not():
    tap.skip_all(why_not())
training.main()
