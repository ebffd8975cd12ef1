# SPDX-License-Identifier: Apache-2.0
#
# Models with experts on GPUs: the losses of a CPU at each stage and where ranks share the experts, the same bits on each run, and
# checkpoints for either. As train_cuda.py has them, on real GPUs or mock ones.

import tap
import training
from gpus import gpus, why_not

COMMON = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 32, "vocab_size": 320, "num_experts_per_tok": 2}
# An auxiliary loss that shows.
EVEN = {"output_router_logits": True, "router_aux_loss_coef": 0.3, "router_z_loss_coef": 0.1}
MIXTRAL = {**COMMON, "model_type": "mixtral", "intermediate_size": 40, "num_local_experts": 5, **EVEN}
QWEN2 = {**COMMON, "model_type": "qwen2_moe", "num_experts": 6, "moe_intermediate_size": 20,
         "shared_expert_intermediate_size": 28, "tie_word_embeddings": True, **EVEN}
QWEN3 = {**COMMON, "model_type": "qwen3_moe", "num_experts": 40, "num_experts_per_tok": 5, "moe_intermediate_size": 24,
         "norm_topk_prob": True, "head_dim": 12}
SIZE = {"batch": 4, "accumulation": 1, "steps": 5}
BF16 = {"bf16": {"enabled": True}}
# A mock GPU so does its work as late as it may: what should wait for it, and does not, is done before it.
LATE = {"DT_EMULATOR_LAZY": "60000"}


def alone(s, name, model, **how):
    """Of a CPU: losses and norms."""
    c = s.config(name + ".json", model=model, device="cpu", **{**SIZE, **how})
    s.run(c)
    return s.losses(c), s.norms(c)


def on_gpus(s, name, model, world=1, **how):
    c = s.config(name + ".json", model=model, device="cuda", **{**SIZE, **how})
    program = s.run(c, world=world, env={**gpus(world), **LATE})
    tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
    return s.losses(c), s.norms(c)


@training.story
def same_losses(s):
    """one rank, and two at each stage, have the losses and norms of a CPU, with an auxiliary loss, a shared expert, and 40 experts"""
    for name, model, rows in (("mixtral", MIXTRAL, ((1, 0), (2, 1), (2, 3))), ("qwen2", QWEN2, ((1, 3), (2, 2))), ("qwen3", QWEN3, ((2, 0),))):
        losses, norms = alone(s, name, model, accumulation=2)
        for world, stage in rows:
            what = "%s: %d ranks, stage %d" % (name, world, stage)
            is_losses, is_norms = on_gpus(s, "%s%d%d" % (name, world, stage), model, world, stage=stage, accumulation=2 // world)
            training.close(is_losses, losses, 1e-4, what)
            training.close(is_norms, norms, 1e-3, "norms, " + what)


@training.story
def halves(s):
    """in bfloat16 the losses of a CPU within 1 %, also where a stage has half of the layers"""
    for name, model, world, how in (("mixtral", MIXTRAL, 2, {"stage": 3}), ("qwen3", QWEN3, 2, {"parallel": {"pipeline": 2}, "accumulation": 2})):
        losses, _ = alone(s, name, model, accumulation=2, **BF16)
        is_losses, _ = on_gpus(s, name + "-gpus", model, world, **{**BF16, **how})
        training.close(is_losses, losses, 0.01, name + " in bfloat16")


@training.story
def shared_among_ranks(s):
    """ranks that share the experts of each block, or each expert, have the losses and norms of a CPU, with stages, too; in bfloat16 within 1 %"""
    tied = {**QWEN2, "output_router_logits": False}
    for name, model, world, micros, parallel, stage, how in (("pair", {**MIXTRAL, "num_local_experts": 4}, 2, 2, {"expert": 2}, 0, {}),
                                                             ("pairs", QWEN2, 4, 4, {"expert": 2}, 3, {}),
                                                             ("all", QWEN3, 4, 4, {"expert": 4}, 1, BF16),
                                                             ("parts", QWEN2, 4, 2, {"expert": 2, "tensor": 2}, 1, {}),
                                                             ("stages", tied, 4, 4, {"expert": 2, "pipeline": 2}, 2, {"accumulation": 2})):
        losses, norms = alone(s, name, model, **{**how, "accumulation": micros})
        is_losses, is_norms = on_gpus(s, name + "-gpus", model, world, parallel=parallel, stage=stage, **how)
        training.close(is_losses, losses, 0.01 if how == BF16 else 1e-4, name)
        training.close(is_norms, norms, 0.1 if how == BF16 else 1e-3, "norms, " + name)


@training.story
def same_bits(s):
    """every run has the same bits, also where blocks are gone through again, and with and without CUDA graphs"""
    first = None
    for number, how in enumerate(({}, {}, {"activation_checkpointing": {}}, {"cuda_graphs": False})):
        losses = on_gpus(s, "%d" % number, QWEN2, accumulation=2, **BF16, **how)
        first = first or losses
        tap.check_equal(losses, first, "losses and norms of run %d" % number)


@training.story
def devices_change(s):
    """a checkpoint of a GPU goes on on a CPU, and the other way round, and so does one of two GPUs that share the experts"""
    model = {**MIXTRAL, "num_local_experts": 4}
    total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 5}}}
    losses, _ = alone(s, "whole", model, **{**total, "accumulation": 2})
    kinds = {"cpu": ("cpu", 1, {}), "gpu": ("cuda", 1, {}), "gpus": ("cuda", 2, {"parallel": {"expert": 2}})}
    for first, then in (("cpu", "gpu"), ("gpus", "cpu"), ("gpu", "gpus")):
        is_losses = []
        for kind, steps in ((first, 2), (then, 5)):
            device, world, how = kinds[kind]
            c = s.config("%s-%s-%s.json" % (first, then, kind), model=model, device=device, stage=1, save_dir=s.path("from-" + first),
                         **{**SIZE, **total, **how, "steps": steps, "accumulation": 2 // world})
            program = s.run(c, world=world, env=gpus(world))
            is_losses += s.losses(c)
        program.expect(r"resumed from .*: step 2$")
        training.close(is_losses, losses, 1e-4, "%s, then %s" % (first, then))


if why_not():
    tap.skip_all(why_not())
training.main()
