# SPDX-License-Identifier: Apache-2.0
#
# Runs that go on in another mesh at each step: dimensions, ZeRO stages and schedules are drawn by a seed. DT_MESHES=100 draws a hundred,
# DT_MESH_SEED others; each checkpoint is that of the mesh before.

import math
import os
import random

import training

MOST_RANKS = 8
DENSE = {**training.LLAMA, "num_hidden_layers": 4, "num_key_value_heads": 4, "tie_word_embeddings": True, "vocab_size": 322}
EXPERTS = {**DENSE, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
           "shared_expert_intermediate_size": 28, "output_router_logits": True, "router_aux_loss_coef": 0.3,
           "router_z_loss_coef": 0.1}
MICRO_BATCHES = 8  # of a step, in all
CHAIN = 20  # steps of a run: which expert a token picks hangs on last bits, and so do, after some dozens of steps, losses


def drawn(chance, dims):
    """A mesh: sizes by dimension, ranks that have other samples among them."""
    while True:
        sizes = {dim: chance.choice((1, 1, 2, 4)) for dim in (*dims, "data")}
        if math.prod(sizes.values()) <= MOST_RANKS:
            return sizes


def parallel_of(chance, sizes):
    parallel = {dim: size for dim, size in sizes.items() if dim != "data"}
    if sizes["pipeline"] > 1:
        orders = ["1f1b", "gpipe"]
        if sizes["pipeline"] == 2:
            orders.append("interleaved")
        if "expert" not in sizes:
            orders.append("zb-h1")
        parallel["schedule"] = chance.choice(orders)
    if parallel.get("schedule") == "interleaved":
        parallel["chunks"] = 2  # a block each
    if sizes["context"] > 1:
        divided = sizes.get("tensor", 1) * sizes["context"] <= 4
        parallel["context_by"] = chance.choice(("keys", "heads", "ring") if divided else ("keys", "ring"))
    if sizes.get("tensor", 1) > 1:
        parallel["sequence"] = chance.choice((False, True))
    return parallel


def go_through(s, model, dims):
    count, seed = int(os.environ.get("DT_MESHES", "10")), int(os.environ.get("DT_MESH_SEED", "19"))
    chance = random.Random("%d of %r" % (seed, dims))
    more = {"model": model, "batch": MICRO_BATCHES, "steps": min(count, CHAIN)}
    whole = s.config("whole.json", accumulation=MICRO_BATCHES, **more)
    s.run(whole)
    wanted = s.losses(whole)
    for number in range(count):
        step, saved = number % CHAIN, s.path("saved%d" % (number // CHAIN))
        sizes = drawn(chance, dims)
        samples = sizes["data"] * sizes.get("expert", 1)
        stage = chance.randrange(3 if sizes["pipeline"] > 1 else 4)
        parallel = parallel_of(chance, sizes)
        what = "seed %d, mesh %d: %r, %r, stage %d" % (seed, number + 1, sizes, parallel, stage)
        c = s.config("mesh%d.json" % number, accumulation=MICRO_BATCHES // samples, stage=stage, parallel=parallel, save_dir=saved, **more)
        program = s.run(c, "--set", "train.steps=%d" % (step + 1), world=math.prod(sizes.values()))
        if step:
            program.expect(r"resumed from .*: step %d$" % step)
        training.close(s.losses(c), wanted[step:step + 1], 1e-5, what)


@training.story
def any_to_any(s):
    """a checkpoint of any mesh goes on in any other: tensors, layers, positions and samples"""
    go_through(s, DENSE, ("tensor", "pipeline", "context"))


@training.story
def any_to_any_with_experts(s):
    """the same of a model with experts: tensors, experts, layers, positions and samples"""
    go_through(s, EXPERTS, ("tensor", "expert", "pipeline", "context"))


training.main()
