# SPDX-License-Identifier: Apache-2.0
#
# Ranks that share a model by its layers: to the bit the losses of one rank, checkpoints for any other mesh, and what is refused.

import json
import os
import random
import shutil
import signal

import servers
import tap
import training

GPT2 = {**training.GPT2, "n_head": 4, "n_layer": 5}
LLAMA = {**training.LLAMA, "num_hidden_layers": 7}
GEMMA3 = {"model_type": "gemma3_text", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 6, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 32, "vocab_size": 320, "sliding_window": 9}
EXPERTS = {"model_type": "mixtral", "hidden_size": 48, "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "max_position_embeddings": 32, "vocab_size": 320, "num_local_experts": 4,
           "num_experts_per_tok": 2}


def mesh(s, name, pipeline, tensor=1, schedule="1f1b", **more):
    return s.config(name, **{"parallel": {"pipeline": pipeline, "tensor": tensor, "schedule": schedule}, **more})


def interleaved(s, name, pipeline, chunks, tensor=1, **more):
    parallel = {"pipeline": pipeline, "chunks": chunks, "tensor": tensor, "schedule": "interleaved"}
    return s.config(name, **{"parallel": parallel, "accumulation": pipeline, **more})


def of_mesh(s, name, pipeline, tensor, data, chunks=1, **more):
    """And how many workers that is."""
    c = interleaved(s, name, pipeline, chunks, tensor, **more) if chunks > 1 else mesh(s, name, pipeline, tensor, **more)
    return c, pipeline * tensor * data


def norms(s, config):
    return [row["grad_norm"] for _, row in sorted(s.steps(config).items())]


@training.story
def same_bits(s):
    """2, 3 and 4 stages of uneven layers have the losses and norms of one rank to the bit, in either order, beside others or alone"""
    for world, stage in ((1, 0), (2, 1)):
        alone = s.config("alone%d.json" % world, model=LLAMA, stage=stage, accumulation=3)
        s.run(alone, world=world)
        for pipeline, schedule in ((2, "1f1b"), (3, "1f1b"), (4, "gpipe")):
            c = mesh(s, "p%d%d.json" % (world, pipeline), pipeline, schedule=schedule, model=LLAMA, stage=stage, accumulation=3)
            program = s.run(c, world=world * pipeline)
            program.expect(r"^a pipeline of %d stages, with [\d +]+ blocks, by %s$" % (pipeline, schedule.upper().replace("GPIPE", "GPipe")))
            tap.check_equal(s.losses(c), s.losses(alone), "losses of %d stages" % pipeline)
            tap.check_equal(norms(s, c), norms(s, alone), "norms of %d stages" % pipeline)


@training.story
def chunks_have_the_same_bits(s):
    """2 and 4 stages of several chunks each have the losses and norms of one rank to the bit, at ZeRO stages 0 to 2, also where a step just fills them"""
    eight = {**LLAMA, "num_hidden_layers": 8}
    rows = ((2, 2, 1, 0, 4, LLAMA, {}), (2, 3, 2, 1, 6, LLAMA, {}), (4, 2, 1, 2, 4, eight, {}), (2, 3, 1, 1, 2, LLAMA, {}),
            (2, 2, 1, 1, 4, LLAMA, {"activation_checkpointing": {}}), (3, 2, 1, 0, 3, LLAMA, {}))
    for number, (pipeline, chunks, data, stage, accumulation, model, others) in enumerate(rows):
        more = {"model": model, "stage": stage, "accumulation": accumulation, "batch": 24, "data": {"validation": s.data},
                "validate_every": 4, "validation_batches": 2, **others}
        alone = s.config("alone%d.json" % number, **more)
        wanted = s.run(alone, world=data).expect(r"validation\D*([\d.]+)").group(1)
        c = interleaved(s, "chunks%d.json" % number, pipeline, chunks, **more)
        program = s.run(c, world=pipeline * data)
        program.expect(r"^a pipeline of %d stages x %d chunks, with [\d +]+ blocks, by interleaved 1F1B$" % (pipeline, chunks))
        what = "%d stages x %d chunks, %d micro-batches" % (pipeline, chunks, accumulation)
        tap.check_equal(s.losses(c), s.losses(alone), "losses of " + what)
        tap.check_equal(norms(s, c), norms(s, alone), "norms of " + what)
        tap.check_equal(program.expect(r"validation\D*([\d.]+)").group(1), wanted, "validation of " + what)


@training.story
def halves_have_the_same_bits(s):
    """by ZB-H1 2 to 4 stages have the losses of one rank and the norms of 1F1B to the bit, with few micro-batches and many, at ZeRO stages 0 to 2"""
    dropping = {**LLAMA, "num_hidden_layers": 3, "attention_dropout": 0.1}
    rows = ((2, 1, 0, 1, LLAMA, {}), (2, 2, 2, 4, LLAMA, {}), (3, 2, 1, 4, LLAMA, {}), (4, 1, 1, 6, LLAMA, {}), (4, 1, 0, 2, LLAMA, {}),
            (3, 1, 1, 3, dropping, {}), (2, 1, 1, 4, LLAMA, {"bf16": {"enabled": True}}))
    for number, (pipeline, data, stage, accumulation, model, others) in enumerate(rows):
        more = {"model": model, "stage": stage, "accumulation": accumulation, "batch": 24, "data": {"validation": s.data},
                "validate_every": 4, "validation_batches": 2, **others}
        alone = s.config("alone%d.json" % number, **more)
        wanted = s.run(alone, world=data).expect(r"validation\D*([\d.]+)").group(1)
        plain, c = (mesh(s, "%s%d.json" % (schedule, number), pipeline, schedule=schedule, **more) for schedule in ("1f1b", "zb-h1"))
        s.run(plain, world=pipeline * data)
        program = s.run(c, world=pipeline * data)
        program.expect(r"^a pipeline of %d stages, with [\d +]+ blocks, by ZB-H1$" % pipeline)
        what = "%d stages, %d micro-batches" % (pipeline, accumulation)
        tap.check_equal(s.losses(c), s.losses(alone), "losses of " + what)
        tap.check_equal(norms(s, c), norms(s, plain), "norms of 1F1B's " + what)
        tap.check_equal(program.expect(r"validation\D*([\d.]+)").group(1), wanted, "validation of " + what)


@training.story
def halves_beside_others(s):
    """by ZB-H1 what 1F1B gives, to the bit: a tied head, ranks that share blocks, rows or samples, windows, norms behind branches, packed documents"""
    four = {**training.LLAMA, "num_hidden_layers": 4, "num_key_value_heads": 4}
    packed = {"accumulation": 2, **training.conversations(s)}
    rows = ((GPT2, {"pipeline": 3}, 3, {"accumulation": 4}), (GPT2, {"pipeline": 2, "tensor": 2}, 4, {"accumulation": 4}),
            (GEMMA3, {"pipeline": 4}, 4, {"accumulation": 2}), (GEMMA3, {"pipeline": 2, "tensor": 2, "sequence": True}, 4, {"accumulation": 2}),
            (four, {"pipeline": 2, "context": 2}, 4, {"accumulation": 4}),
            (four, {"pipeline": 2, "context": 2, "context_by": "heads"}, 4, {"accumulation": 4}),
            (GPT2, {"pipeline": 2}, 2, {"accumulation": 4, "bf16": {"enabled": True}}), (four, {"pipeline": 3}, 3, packed))
    for number, (model, parallel, world, others) in enumerate(rows):
        plain, c = (s.config("%s%d.json" % (schedule, number), model=model, parallel={**parallel, "schedule": schedule}, **others)
                    for schedule in ("1f1b", "zb-h1"))
        s.run(plain, world=world)
        s.run(c, world=world)
        what = "%s, %s" % (model["model_type"], parallel)
        tap.check_equal(s.losses(c), s.losses(plain), "losses of " + what)
        tap.check_equal(norms(s, c), norms(s, plain), "norms of " + what)


@training.story
def same_chances(s):
    """numbers of 16 bits that are rounded by chance are rounded as one rank that has all blocks rounds them"""
    more = {"model": LLAMA, "accumulation": 2, "bf16": {"enabled": True}, "stochastic_rounding": True}
    alone = s.config("alone.json", **more)
    s.run(alone)
    for c, world in ((mesh(s, "stages.json", 3, **more), 3), (interleaved(s, "chunks.json", 2, 3, **more), 2)):
        s.run(c, world=world)
        tap.check_equal(s.losses(c), s.losses(alone), "losses of %d stages" % world)


@training.story
def same_losses(s):
    """the same within rounding where the head is tied, with windows, ranks that share blocks, recomputed blocks, and numbers of 16 bits"""
    more = {"accumulation": 2, "data": {"validation": s.data}, "validate_every": 4, "validation_batches": 2}
    chunks = {"parallel": {"pipeline": 2, "tensor": 2, "schedule": "interleaved", "chunks": 3}}
    rows = ((GPT2, 3, 1, 0, {}), (GPT2, 2, 2, 1, {}), (GEMMA3, 3, 1, 1, {}), (GEMMA3, 2, 2, 2, {"activation_checkpointing": {}}),
            (LLAMA, 2, 2, 1, {"bf16": {"enabled": True}}), (GEMMA3, 2, 2, 1, chunks))
    for number, (model, pipeline, tensor, stage, others) in enumerate(rows):
        alone = s.config("alone%d.json" % number, **{"model": model, **others, **more, "parallel": {}})
        wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
        c = mesh(s, "mesh%d.json" % number, pipeline, tensor, **{"model": model, "stage": stage, **others, **more})
        program = s.run(c, world=pipeline * tensor)
        what = "%s, %d x %d" % (model["model_type"], pipeline, tensor)
        training.close(s.losses(c), s.losses(alone), 1e-3 if "bf16" in others else 1e-5, what)
        training.close(norms(s, c), norms(s, alone), 1e-2 if "bf16" in others else 1e-4, "norms, " + what)
        training.close([float(program.expect(r"validation\D*([\d.]+)").group(1))], [wanted], 1e-4, "validation, " + what)


@training.story
def any_mesh_goes_on(s):
    """a checkpoint of any mesh of stages, tensors and data goes on in any other, at any ZeRO stage, and is the file that one rank writes"""
    chance = random.Random(19)
    meshes = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 4, 1), (2, 1, 2), (5, 1, 1), (1, 2, 2), (2, 1, 1, 2), (2, 2, 1, 2)]
    for model in (GPT2, {**LLAMA, "num_key_value_heads": 4}):
        kind = model["model_type"]
        whole = s.config(kind + ".json", model=model)
        s.run(whole)
        before = (1, 1, 1)
        for number, after in enumerate(chance.sample(meshes, 5) + [(2, 1, 1, 2), (2, 2, 1), (2, 2, 1, 2), (1, 4, 1)]):
            name, stage = "%s%d" % (kind, number), chance.randrange(3)
            half, world = of_mesh(s, name + "half.json", *before, model=model, stage=stage, save_dir=s.path(name))
            s.run(half, "--set", "train.steps=4", world=world)
            if before[1:] == (1, 1) and kind == "llama":
                first = os.path.join(s.path("llama0"), "step-00000004", "model.safetensors")
                with open(first, "rb") as a, open(os.path.join(s.path(name), "step-00000004", "model.safetensors"), "rb") as b:
                    tap.check_equal(a.read() == b.read(), True, "the same file of %r" % (before,))
            c, world = of_mesh(s, name + ".json", *after, model=model, stage=chance.randrange(3), save_dir=s.path(name))
            s.run(c, world=world).expect(r"resumed from .*: step 4$")
            training.close(s.losses(c), s.losses(whole)[4:], 1e-5, "%s from %r to %r" % (kind, before, after))
            before = after


@training.story
def comes_back(s):
    """a rank that is killed costs no step, be the stages as unlike as they may"""
    alone = s.config("alone.json", model=LLAMA, steps=20)
    s.run(alone)
    for c in (mesh(s, "killed.json", 2, 2, model=LLAMA, steps=20, vault_every=1),
              mesh(s, "halves.json", 2, 2, schedule="zb-h1", model=LLAMA, steps=20, vault_every=1),
              interleaved(s, "chunks.json", 2, 3, 2, model=LLAMA, steps=20, vault_every=1)):
        program = s.start(c, world=4, dtrun=("--max-restarts", "1"))
        program.expect(r"^step +6/")
        workers = s.workers(program)
        told = s.told_tokens(workers[0])
        os.kill(workers[3], signal.SIGKILL)
        back = int(program.expect(r"^back at step (\d+)").group(1))
        program.expect(r"^step +%d/" % (back + 1))
        tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        training.close(s.losses(c), s.losses(alone), 1e-5, "4 ranks, one of which was killed")
        shares = [row["tokens_per_s"] / 4 for row in s.steps(c).values()]
        tap.check_equal(any(abs(told / x - 1) < 1e-6 for x in shares), True, "%r of %r tokens are a worker's of four" % (told, shares))


@training.story
def goes_on_as_another(s):
    """examples/llama-tiny.json as 2 tensors x 2 stages by ZB-H1 has the losses of one process, is killed, and goes on as 4 tensors"""
    example = os.path.join(training.TOP, "examples", "llama-tiny.json")

    def options(name, **parallel):
        sets = {"data.train": s.data, "data.sequence_length": 32, "train_batch_size": 8, "train.steps": 40, "train.threads": 1,
                "train.log_every": 1, "train.metrics": s.path(name + ".jsonl"), "parallel": json.dumps(parallel)}
        return [word for key, value in sets.items() for word in ("--set", "%s=%s" % (key, value))]

    folder = ("--set", "train.save_dir=" + s.path("saved"), "--set", "train.save_every=6")
    s.run(example, *options("one"))
    program = s.start(example, *options("mesh", tensor=2, pipeline=2, schedule="zb-h1"), *folder, world=4)
    program.expect(r"^step +1/")
    workers = s.workers(program)
    program.expect(r"^step +14/")
    os.kill(workers[2], signal.SIGKILL)
    if program.end() == 0:
        raise AssertionError("it ended well")
    program = s.run(example, *options("four", tensor=4), *folder, world=4)
    step = int(program.expect(r"^resumed from .*: step (\d+)$").group(1))
    tap.check_equal(step % 6, 0, "the step that was saved")
    whole, begun = s.losses(s.path("one")), s.losses(s.path("mesh"))
    training.close(begun, whole[:len(begun)], 1e-5, "2 tensors x 2 stages")
    training.close(s.losses(s.path("four")), whole[step:], 1e-5, "gone on as 4 tensors")


@training.story
def two_hosts(s):
    """stages on different hosts, with the ranks that share blocks on one each; and hosts that are told of other numbers of stages end"""
    alone = s.config("alone.json", model=LLAMA, accumulation=3)
    s.run(alone)
    for number, (stages, schedule, local, accumulation) in enumerate((((2, 2), "1f1b", 2, 3), ((2, 1), "1f1b", 2, 3), ((4, 4), "zb-h1", 4, 6))):
        port = str(servers.free_port())
        nodes = [s.start(mesh(s, "host%d%d.json" % (number, node), stages[node], 2, schedule, model=LLAMA, accumulation=accumulation), world=local,
                         dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
                 for node in range(2)]
        same = stages[0] == stages[1]
        if not same:
            nodes[1].expect(r"parallel.pipeline is 1 here, and 2 where rank 0 is; give all hosts the same configuration")
        for node in nodes:
            tap.check_equal(node.end() == 0, same, "ends well; it said\n%s\n" % "\n".join(node.lines))
    for number in (0, 2):
        training.close(s.losses(s.path("host%d0.json" % number)), s.losses(alone), 1e-5, "two hosts")


def on_two_hosts(s, config, local):
    port = str(servers.free_port())
    return [s.start(config, world=local, dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
            for node in range(2)]


@training.story
def chunks_on_two_hosts(s):
    """chunks that a step crosses from host to host have the losses of one rank, beside ranks that share blocks too"""
    alone = s.config("alone.json", model=LLAMA, accumulation=4)
    s.run(alone)
    for node in on_two_hosts(s, interleaved(s, "chunks.json", 2, 3, model=LLAMA, accumulation=4), 1):
        tap.check_equal(node.end(), 0, "exit status; it said\n%s\n" % "\n".join(node.lines))
    tap.check_equal(s.losses(s.path("chunks.json")), s.losses(alone), "losses")
    for number, (chunks, accumulation) in enumerate(((2, 4), (3, 2), (3, 6))):
        whole = s.config("whole%d.json" % number, model=LLAMA, accumulation=accumulation)
        s.run(whole)
        name = "teams%d.json" % number
        for node in on_two_hosts(s, interleaved(s, name, 2, chunks, 2, model=LLAMA, accumulation=accumulation), 2):
            tap.check_equal(node.end(), 0, "exit status; it said\n%s\n" % "\n".join(node.lines))
        training.close(s.losses(s.path(name)), s.losses(whole), 1e-5, "%d chunks beside ranks that share blocks" % chunks)


@training.story
def hosts_of_other_minds(s):
    """hosts that would go through a step in another way than the first end by a sentence that names it"""
    rows = (({"parallel": {"pipeline": 2, "schedule": "gpipe"}}, r"parallel.schedule is not what it is where rank 0 is; give all hosts"),
            ({"accumulation": 6}, r"train_micro_batch_size_per_gpu is 2 here, and 4 where rank 0 is; give all hosts the same"),
            ({"batch": 24, "accumulation": 6}, r"gradient_accumulation_steps is 6 here, and 3 where rank 0 is"),
            ({"activation_checkpointing": {}}, r"activation_checkpointing is not what it is where rank 0 is"))
    for number, (others, words) in enumerate(rows):
        port = str(servers.free_port())
        nodes = [s.start(s.config("host%d%d.json" % (number, node), **{"parallel": {"pipeline": 2}, "accumulation": 3, **keys}), world=1,
                         dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
                 for node, keys in enumerate(({}, others))]
        nodes[1].expect(words)
        for node in nodes:
            tap.check_equal(node.end() == 0, False, "ends well; it said\n%s\n" % "\n".join(node.lines))


@training.story
def packed_documents(s):
    """documents that share samples stay apart on each stage"""
    more = {"model": {**training.LLAMA, "num_hidden_layers": 4}, "accumulation": 2, **training.conversations(s)}
    alone = s.config("alone.json", **more)
    s.run(alone)
    for c, world in ((mesh(s, "packed.json", 3, **more), 3), (interleaved(s, "chunks.json", 2, 2, **more), 2)):
        s.run(c, world=world)
        tap.check_equal(s.losses(c), s.losses(alone), "losses of %d stages" % world)


@training.story
def is_refused(s):
    """what stages cannot do is said before anything is trained"""
    rows = (({"parallel": {"pipeline": 2}}, 3, r"parallel.pipeline: 2 does not divide the number of ranks, 3: give another --nproc-per-node"),
            ({"parallel": {"pipeline": 2, "tensor": 2}}, 2, r"parallel.pipeline: 2 does not divide what parallel.tensor leaves of the ranks, 1"),
            ({"parallel": {"pipeline": 6}}, 6, r"6 stages want a layer each at least, and this model has 5; give 5 or less$"),
            ({"parallel": {"pipeline": 2}, "stage": 3}, 2, r"ZeRO stage 3 would gather each parameter anew for each micro-batch"),
            ({"parallel": {"pipeline": 2}, "dynamic_accumulation": True}, 2, r"none can be dealt anew; drop it, or train.dynamic_accumulation$"),
            ({"parallel": {"pipeline": 2, "chunks": 3, "schedule": "interleaved"}, "accumulation": 2}, 2,
             r"parallel.chunks: 3 chunks on each of 2 stages want a layer each at least, and this model has 5; give fewer of them$"),
            ({"parallel": {"pipeline": 2, "chunks": 2, "schedule": "interleaved"}, "accumulation": 3}, 2,
             r"gradient_accumulation_steps: interleaved 1F1B takes a multiple of its 2 stages as the number of micro-batches of a step, not 3$"),
            ({"parallel": {"pipeline": 2, "schedule": "zb-h1"}, "activation_checkpointing": {}}, 2,
             r'parallel.schedule: by "zb-h1" .*activation checkpointing would go through each block a third time; drop it, or take "1f1b"$'),
            ({"parallel": {"pipeline": 2, "schedule": "zb-h1"}, "model": EXPERTS}, 2,
             r'parallel.schedule: by "zb-h1" .*which those of experts do not so far; take "1f1b"$'),
            ({"parallel": {"pipeline": 2, "schedule": "zb-h1"}, "lora": {"r": 2, "alpha": 4}}, 2,
             r'parallel.schedule: by "zb-h1" .*beside adapters nearly all weights have none; take "1f1b"$'),
            ({"parallel": {"pipeline": 2}, "pipeline": {"stages": 4}}, 2, r"parallel.pipeline is 2, and pipeline.stages says 4; drop one"))
    for number, (keys, world, words) in enumerate(rows):
        c = s.config("refused%d.json" % number, **{"model": GPT2, **keys})
        program = s.start(c, world=world)
        if program.end() == 0:
            raise AssertionError("%r: not refused" % keys)
        program.expect(words)
    c = s.config("deepspeed.json", model=GPT2, pipeline={"stages": 2, "partition": "best", "seed_layers": False})
    s.run(c, world=2).expect(r"^a pipeline of 2 stages")


training.main()
