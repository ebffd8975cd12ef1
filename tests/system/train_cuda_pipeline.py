# SPDX-License-Identifier: Apache-2.0
#
# Ranks with a GPU each that share a model by its layers: the losses of one rank, checkpoints for any other mesh, one that is
# killed, and what is refused. As train_cuda.py has them, on real GPUs or mock ones.


import tap
import training
from gpus import gpus, why_not

# With a tied head, and one of its own.
GPT2 = {**training.GPT2, "n_head": 4, "n_layer": 4, "vocab_size": 321}
LLAMA = {**training.LLAMA, "num_hidden_layers": 3}
SIZE = {"batch": 4, "accumulation": 2, "steps": 3}
# A mock GPU so does its work as late as it may: what should wait for a message, and does not, is done before it.
LATE = {"DT_EMULATOR_LAZY": "60000"}


def mesh(s, name, pipeline, tensor=1, device="cuda", schedule="1f1b", chunks=None, **how):
    parallel = {"pipeline": pipeline, "tensor": tensor, "schedule": schedule, **({"chunks": chunks} if chunks else {})}
    return s.config(name, device=device, parallel=parallel, **{**SIZE, **how})


@training.story
def same_losses(s):
    """two and three stages in each order, alone, with others beside them, and with tensors shared: the losses and norms of a CPU"""
    for name, model, rows in (("llama", LLAMA, ((2, 2, 1, "1f1b", 0, LATE), (3, 3, 1, "gpipe", 0, {}), (3, 3, 1, "zb-h1", 1, LATE))),
                              ("gpt2", GPT2, ((4, 2, 1, "1f1b", 1, {}), (4, 2, 2, "1f1b", 2, LATE), (4, 2, 2, "zb-h1", 1, {})))):
        alone = mesh(s, name + ".json", 1, 1, "cpu", model=model)
        s.run(alone)
        for world, pipeline, tensor, schedule, stage, late in rows:
            what = "%s: %d ranks, %d stages, %d to a block" % (name, world, pipeline, tensor)
            c = mesh(s, "%s%s%d%d%d.json" % (name, schedule, world, pipeline, tensor), pipeline, tensor, schedule=schedule, model=model, stage=stage)
            program = s.run(c, world=world, env={**gpus(world), **late})
            program.expect(r"^a pipeline of %d stages, with [\d +]+ blocks, by" % pipeline)
            tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
            training.close(s.losses(c), s.losses(alone), 1e-5, what)
            training.close(s.norms(c), s.norms(alone), 1e-5, "norms, " + what)


@training.story
def adapters(s):
    """adapters with dropout, by stages, and between ranks that share blocks, too; and pairs of answers: the losses of a CPU"""
    rows = (({"pipeline": 2}, 0, LATE), ({"tensor": 2, "pipeline": 2, "sequence": True}, 2, {}))
    long = {**LLAMA, "max_position_embeddings": 96}
    pairs = {"dpo": {"beta": 0.2}, "data": training.pairs(s)}
    for name, more, some in (("tokens", {}, rows), ("pairs", pairs, rows[:1])):
        how = {**SIZE, **more}
        alone = training.beside(s, name + ".json", long, {"r": 4, "dropout": 0.1}, device="cpu", **how)
        s.run(alone)
        for parallel, stage, late in some:
            world = parallel["pipeline"] * parallel.get("tensor", 1)
            c = training.beside(s, "%s%d.json" % (name, stage), long, {"r": 4, "dropout": 0.1}, device="cuda", stage=stage, parallel=parallel, **how)
            program = s.run(c, world=world, env={**gpus(world), **late})
            tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
            training.close(s.losses(c), s.losses(alone), 1e-5, "%s, %r" % (name, parallel))


@training.story
def several_chunks(s):
    """stages of two chunks of layers, at stages 0 to 2, with others beside them, tensors shared, and a validation: the losses and norms of a CPU"""
    more = {"model": GPT2, "accumulation": 4, "data": {"validation": s.data}, "validate_every": 3}
    alone = mesh(s, "alone.json", 1, 1, "cpu", **more)
    wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
    for world, tensor, stage, late in ((2, 1, 1, LATE), (4, 2, 0, {}), (4, 1, 2, LATE)):
        what = "%d ranks, 2 stages x 2 chunks, %d to a block, stage %d" % (world, tensor, stage)
        micros = {"accumulation": 4 * tensor // (world // 2)}
        c = mesh(s, "chunks%d%d.json" % (world, tensor), 2, tensor, schedule="interleaved", chunks=2, stage=stage, **{**more, **micros})
        program = s.run(c, world=world, env={**gpus(world), **late})
        program.expect(r"^a pipeline of 2 stages x 2 chunks, with 1 \+ 1 \+ 1 \+ 1 blocks, by interleaved 1F1B")
        training.close(s.losses(c), s.losses(alone), 1e-5, what)
        training.close(s.norms(c), s.norms(alone), 1e-5, "norms, " + what)
        training.close([float(program.expect(r"validation\D*([\d.]+)").group(1))], [wanted], 1e-4, "validation, " + what)


@training.story
def halves(s):
    """in bfloat16, blocks gone through again or ways back in halves, and a validation: the losses of a CPU within 1 %"""
    more = {"model": GPT2, "activation_checkpointing": {}, "data": {"validation": s.data}, "validate_every": 2, "bf16": {"enabled": True}}
    validated = r"step 2/3  validation loss ([\d.]+)"
    alone = mesh(s, "alone.json", 1, 1, "cpu", **more)
    wanted = float(s.run(alone).expect(validated).group(1))
    plain = {key: more[key] for key in more if key != "activation_checkpointing"}
    for c in (mesh(s, "halves.json", 2, **more), mesh(s, "apart.json", 2, schedule="zb-h1", **plain)):
        program = s.run(c, world=2, env=gpus(2))
        training.close(s.losses(c), s.losses(alone), 0.01, "losses")
        training.close([float(program.expect(validated).group(1))], [wanted], 0.01, "validation")


@training.story
def offloaded(s):
    """with the optimizer in the host's memory: the losses without"""
    alone = mesh(s, "alone.json", 1, 1, "cpu", model=GPT2)
    s.run(alone)
    for schedule in ("1f1b", "zb-h1"):
        how = {"schedule": schedule, "model": GPT2, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}
        c = mesh(s, "offloaded-%s.json" % schedule, 2, **how)
        program = s.run(c, world=2, env=gpus(2))
        tap.check_equal(program.says(r"of the host's memory in each rank for what is offloaded$"), True, "that it is")
        training.close(s.losses(c), s.losses(alone), 1e-5, "losses by " + schedule)


@training.story
def any_mesh_goes_on(s):
    """a checkpoint of stages of two chunks goes on on a CPU, one of that in stages of shared blocks, and one of those on one GPU"""
    total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 4}}}
    whole = mesh(s, "whole.json", 1, 1, "cpu", model=GPT2, **{**total, "steps": 4})
    s.run(whole)
    chunks = {"schedule": "interleaved", "chunks": 2}
    rows = ((2, 2, 1, "cuda", 0, chunks), (1, 1, 1, "cpu", 0, {}), (4, 2, 2, "cuda", 2, {}), (1, 1, 1, "cuda", 0, {}))
    for step, (world, pipeline, tensor, device, stage, more) in enumerate(rows):
        c = mesh(s, "%d.json" % step, pipeline, tensor, device, model=GPT2, stage=stage, save_dir=s.path("saved"),
                 **{**total, **more, "steps": step + 1})
        program = s.run(c, world=world, env=gpus(world))
        if step > 0:
            program.expect(r"resumed from .*: step %d$" % step)
        training.close(s.losses(c), s.losses(whole)[step:step + 1], 1e-5, "step %d" % (step + 1))


@training.story
def a_stage_killed(s):
    """of two stages the second is killed with -9: the job goes on from the vault, and no step is lost"""
    how = {"model": LLAMA, "steps": 8, "vault_every": 1}
    whole, c = mesh(s, "whole.json", 1, 1, "cpu", **how), mesh(s, "killed.json", 2, **how)
    s.run(whole)
    s.run_killed(c, 2, 1, step=3, env=gpus(2))
    training.close(s.losses(c), s.losses(whole), 1e-5, "with a stage killed, and without")


@training.story
def is_refused(s):
    """what ranks on GPUs do not share so far is said before anything is trained"""
    c = s.config("refused.json", model=GPT2, device="cuda", parallel={"pipeline": 2},
                 zero_optimization={"stage": 2, "offload_optimizer": {"device": "cpu"}})
    s.run(c, world=2, status=1, env=gpus(2)).expect(
        r"zero_optimization\.offload_optimizer goes with it at stage 1 alone on a GPU; give zero_optimization\.stage 1")


if why_not():
    tap.skip_all(why_not())
training.main()
