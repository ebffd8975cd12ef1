# SPDX-License-Identifier: Apache-2.0
#
# Ranks that share the positions of each sample: the same losses as one rank, checkpoints for any other world, and what is refused.

import json

import servers
import tap
import training

QWEN3 = {**training.LLAMA, "model_type": "qwen3", "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 12,
         "num_hidden_layers": 3}
# A window that ends within a piece, and layers without one.
GEMMA3 = {"model_type": "gemma3_text", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 32, "vocab_size": 320, "sliding_window": 9}


def shared(s, name, context, tensor=1, pipeline=1, **more):
    return s.config(name, **{"parallel": {"context": context, "tensor": tensor, "pipeline": pipeline}, **more})


@training.story
def same_losses(s):
    """two and four ranks to a sample, with and without others beside them, at each stage, have the losses of one rank"""
    worlds = ((2, 2, 1), (4, 4, 0), (4, 2, 0), (4, 2, 1), (4, 2, 2), (4, 2, 3))
    for model in (training.GPT2, training.LLAMA, QWEN3, GEMMA3):
        kind = model["model_type"]
        alone = s.config(kind + ".json", model=model, steps=5)
        s.run(alone)
        for world, context, stage in worlds if model is training.LLAMA else worlds[:2]:
            what = "%s: %d ranks, %d to a sample, stage %d" % (kind, world, context, stage)
            c = shared(s, "%s%d%d%d.json" % (kind, world, context, stage), context, model=model, stage=stage, steps=5)
            program = s.run(c, world=world)
            program.expect(r"^%d ranks share each sample, %d tokens of it each" % (context, 32 // context))
            training.close(s.losses(c), s.losses(alone), 1e-6, what)
            norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
            training.close(*norms, 1e-5, "norms, " + what)


LONGER = ({**training.GPT2, "n_positions": 64}, {**training.LLAMA, "max_position_embeddings": 64, "sliding_window": 20, "model_type": "mistral"})
FOUR_BLOCKS = {**LONGER[1], "num_hidden_layers": 4}


@training.story
def documents(s):
    """the same where documents are packed into samples and end within pieces, with micro-steps, a validation and recomputed blocks"""
    more = {"batch": 24, "steps": 4, "accumulation": 3, "validate_every": 4, "validation_batches": 2, **training.conversations(s)}
    for model, stage in zip(LONGER, (2, 3)):
        kind = model["model_type"]
        alone = s.config(kind + ".json", model=model, **more)
        wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
        c = shared(s, kind + "4.json", 4, model=model, stage=stage, activation_checkpointing={}, **more)
        got = float(s.run(c, world=4).expect(r"validation\D*([\d.]+)").group(1))
        training.close(s.losses(c), s.losses(alone), 1e-6, kind)
        training.close([got], [wanted], 1e-4, "validation, " + kind)


@training.story
def dealt_and_halved(s):
    """the same where micro-batches move between those that share samples, and with numbers of 16 bits"""
    more = {"model": training.LLAMA, "batch": 24, "accumulation": 3, "bf16": {"enabled": True}}
    alone = s.config("alone.json", **more)
    s.run(alone, world=2)
    both = shared(s, "both.json", 2, stage=3, dynamic_accumulation=True, **more)
    s.run(both, world=4)
    training.close(s.losses(both), s.losses(alone), 1e-4, "two pairs against two ranks")


@training.story
def by_heads(s):
    """ranks that swap positions for heads have the losses of one: of whole samples and of packed documents, on stages, and with others to a block"""
    few = {"steps": 5, "parallel": {"context": 2, "context_by": "heads"}}
    wide = {**training.LLAMA, "num_key_value_heads": 4}
    packed = {"batch": 24, "accumulation": 3, **training.conversations(s)}
    rows = (("whole", training.LLAMA, 2, {}, {"stage": 1}), ("four", wide, 4, {"context": 4}, {}), ("stage3", wide, 4, {}, {"stage": 3}),
            ("tensor", wide, 4, {"tensor": 2}, {}), ("pipeline", training.LLAMA, 4, {"pipeline": 2}, {}),
            ("packed", LONGER[1], 2, {}, {**packed, "activation_checkpointing": {}}))
    for name, model, world, parallel, more in rows:
        alone = s.config(name + ".json", model=model, **{"steps": 5, **{k: v for k, v in more.items() if k != "stage"}})
        s.run(alone)
        c = s.config(name + "2.json", model=model, **{**few, **more, "parallel": {**few["parallel"], **parallel}})
        s.run(c, world=world).expect(r"^\d ranks share each sample, \d+ tokens of it each, and in attention the heads$")
        training.close(s.losses(c), s.losses(alone), 1e-6, name)
        norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
        training.close(*norms, 1e-5, "norms, " + name)


@training.story
def by_ring(s):
    """ranks among which keys and values go round have the losses of one: with shared heads, windows, documents, and others on each dimension"""
    packed = {"batch": 24, "accumulation": 3, **training.conversations(s)}
    tensors = {**QWEN3, "num_attention_heads": 4, "num_key_value_heads": 2}
    rows = (("gpt2", training.GPT2, 2, 2, {}, {"stage": 1}), ("llama", training.LLAMA, 4, 4, {}, {"stage": 0}),
            ("halved", training.LLAMA, 4, 2, {}, {"stage": 3}), ("shared", QWEN3, 4, 4, {}, {"stage": 2}),
            ("windows", GEMMA3, 4, 4, {}, {"activation_checkpointing": {}}),
            ("tensor", tensors, 4, 2, {"tensor": 2, "sequence": True}, {"stage": 3}),
            ("pipeline", LONGER[1], 4, 2, {"pipeline": 2}, {**packed, "stage": 2, "activation_checkpointing": {}}),
            ("packed", LONGER[1], 4, 4, {}, {**packed, "stage": 1}),
            ("all", {**tensors, "num_hidden_layers": 4}, 8, 2, {"tensor": 2, "pipeline": 2}, {"accumulation": 4, "activation_checkpointing": {}}))
    for name, model, world, context, parallel, more in rows:
        alone = s.config(name + ".json", model=model, **{"steps": 5, **{k: v for k, v in more.items() if k != "stage"}})
        s.run(alone)
        c = s.config(name + "2.json", model=model, parallel={"context": context, "context_by": "ring", **parallel}, **{"steps": 5, **more})
        s.run(c, world=world).expect(r"^%d ranks share each sample, \d+ tokens of it each, and in attention keys and values go round$" % context)
        training.close(s.losses(c), s.losses(alone), 1e-5, name)
        norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
        training.close(*norms, 1e-5, "norms, " + name)


@training.story
def with_tensors(s):
    """two ranks to a block and two to a sample have the losses of one"""
    tensors = {**QWEN3, "num_attention_heads": 4, "num_key_value_heads": 2}
    alone = s.config("alone.json", model=tensors)
    s.run(alone)
    for stage in (0, 3):
        both = shared(s, "both%d.json" % stage, 2, tensor=2, model=tensors, stage=stage)
        program = s.run(both, world=4)
        program.expect(r"^2 ranks share each block; 2 such teams")
        program.expect(r"^2 ranks share each sample, 16 tokens of it each")
        training.close(s.losses(both), s.losses(alone), 1e-5, "stage %d" % stage)
        norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (both, alone)]
        training.close(*norms, 1e-5, "norms, stage %d" % stage)


@training.story
def with_stages(s):
    """two ranks to a sample on each of two stages have the losses of one rank, and so have two to a block beside them, and packed documents"""
    more = {"steps": 5, "accumulation": 4, "validate_every": 5, "validation_batches": 2, **training.conversations(s)}
    for model, tensor, stage, schedule in ((LONGER[0], 1, 1, "1f1b"), (LONGER[1], 1, 2, "gpipe"), (LONGER[1], 2, 1, "1f1b"),
                                           (FOUR_BLOCKS, 1, 0, "interleaved")):
        what = "%s, %d to a block, stage %d, %s" % (model["model_type"], tensor, stage, schedule)
        alone = s.config("alone%d%d.json" % (tensor, stage), model=model, **more)
        wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
        parallel = {"context": 2, "pipeline": 2, "tensor": tensor, "schedule": schedule}
        if schedule == "interleaved":
            parallel["chunks"] = 2
        c = s.config("stages%d%d.json" % (tensor, stage), parallel=parallel, model=model, stage=stage, **more)
        program = s.run(c, world=4 * tensor)
        program.expect(r"^2 ranks share each sample, 32 tokens of it each")
        program.expect(r"^a pipeline of 2 stages")
        training.close(s.losses(c), s.losses(alone), 1e-5, what)
        norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
        training.close(*norms, 1e-4, "norms, " + what)
        got = float(program.expect(r"validation\D*([\d.]+)").group(1))
        training.close([got], [wanted], 1e-4, "validation, " + what)


@training.story
def adapters_and_pairs(s):
    """adapters beside a frozen model have the same losses, of texts, and of pairs of answers; with dropout, which is that of the same rows"""
    base = s.path("base")
    s.run(s.config("base.json", model=LONGER[1], steps=1, save_dir=base))
    lora = {"r": 4, "alpha": 8, "dropout": 0.2, "use_dora": True, "target_modules": ["q_proj", "v_proj", "down_proj"]}
    pairs = training.pairs(s)
    pairs["sequence_length"] = 64
    for name, more in (("text", {"lora": lora}), ("pairs", {"lora": lora, "dpo": {"beta": 0.2, "sft": 0.3}, "data": pairs, "validate_every": 5}),
                       ("all", {"dpo": {"beta": 0.2}, "data": pairs})):
        more = {"model": LONGER[1], "steps": 5, "validation_batches": 2, **more}
        alone, halved = s.config(name + ".json", **more), shared(s, name + "2.json", 2, stage=2, **more)
        told = [s.run(c, "--init-from", base, world=world) for c, world in ((alone, 1), (halved, 4))]
        training.close(s.losses(halved), s.losses(alone), 1e-5, name)
        norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (halved, alone)]
        training.close(*norms, 1e-4, "norms, " + name)
        if "validate_every" in more:
            wanted, got = (float(program.expect(r"validation\D*([\d.]+)").group(1)) for program in told)
            training.close([got], [wanted], 1e-4, "validation, " + name)
            margins = [[row["reward_margin"] for _, row in sorted(s.steps(x).items())][2:] for x in (halved, alone)]
            training.close(*margins, 1e-3, "margins, " + name)


@training.story
def any_world_goes_on(s):
    """a checkpoint goes on where other ranks share samples, or none do: with the same batch, and the losses of a run in one piece"""
    worlds = ((2, 2, 1, 1), (1, 1, 1, 1), (4, 2, 1, 2), (4, 2, 2, 1), (4, 2, 1, 1), (2, 1, 1, 1))
    whole = s.config("whole.json", model=training.LLAMA, batch=8, steps=12)
    s.run(whole)
    before = None
    for number, (world, context, tensor, pipeline) in enumerate(worlds):
        c = shared(s, "part%d.json" % number, context, tensor, pipeline, model=training.LLAMA, batch=8, steps=12, stage=number % 4,
                   save_dir=s.path("saved"))
        program = s.run(c, "--set", "train.steps=%d" % (2 * (number + 1)), world=world)
        if before is not None:
            program.expect(r"resumed from .*: step %d$" % before)
        before = 2 * (number + 1)
        what = "%d ranks, %d to a sample, %d to a block, %d stages" % (world, context, tensor, pipeline)
        training.close(s.losses(c), s.losses(whole)[before - 2:before], 1e-6, what)


@training.story
def keeps_its_batch(s):
    """who goes on in another world without a train_batch_size keeps the one that the run had"""
    micro = ("--set", "train_batch_size=auto", "--set", "train_micro_batch_size_per_gpu=3")
    first = shared(s, "first.json", 2, steps=2, save_dir=s.path("saved"))
    s.run(first, *micro, world=4).expect(r"^batch 6 = micro 3 x accumulation 1 x 2;")
    second = s.config("second.json", steps=4, save_dir=s.path("saved"))
    s.run(second, *micro).expect(r"^batch 6 = micro 3 x accumulation 2 x 1;")


@training.story
def comes_back(s):
    """a rank that is killed costs no step, be keys gathered or go round"""
    alone = s.config("alone.json", model=training.LLAMA, steps=40)
    s.run(alone)
    for by in ("keys", "ring"):
        c = s.config(by + ".json", parallel={"context": 2, "context_by": by}, model=training.LLAMA, steps=40, stage=2, vault_every=1)
        s.run_killed(c, 4, 1)
        training.close(s.losses(c), s.losses(alone), 1e-5, "4 ranks, one of which was killed, by " + by)


def nodes(s, configs):
    """Runs of one rank each, which make one world."""
    port = str(servers.free_port())
    return [s.start(c, world=1, dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
            for node, c in enumerate(configs)]


@training.story
def between_hosts(s):
    """ranks of two hosts share samples, and a host that is told of another mesh ends and says so"""
    alone = s.config("alone.json", model=training.LLAMA, steps=4)
    s.run(alone)
    for by in ("keys", "ring"):
        c = s.config(by + ".json", parallel={"context": 2, "context_by": by}, model=training.LLAMA, steps=4)
        for program in nodes(s, (c, c)):
            tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        training.close(s.losses(c), s.losses(alone), 1e-6, "two hosts, by " + by)
    unlike = nodes(s, [shared(s, "node%d.json" % node, node + 1) for node in range(2)])
    unlike[1].expect(r"parallel.context is 2 here, and 1 where rank 0 is; give all hosts the same configuration")
    for program in unlike:
        if program.end() == 0:
            raise AssertionError("it ended well")


@training.story
def is_refused(s):
    """what ranks cannot share is said before anything is trained"""
    rows = (({"parallel": {"context": 3}}, 3, r"parallel.context: 3 ranks share samples in 6 pieces of one length, which 32 tokens are not; "
             r"give a data.sequence_length of 30, or another parallel.context$"),
            ({"parallel": {"context": 32}}, 1, r"parallel.context: 32 ranks .* give a data.sequence_length of at least 64, or another"),
            ({"parallel": {"context": 2}}, 3, r"parallel.context: 2 does not divide the number of ranks, 3: give another --nproc-per-node"),
            ({"parallel": {"context": 2, "tensor": 3}}, 3, r"parallel.context: 2 does not divide what parallel.tensor leaves of the ranks, 1:"),
            ({"parallel": {"context": 2, "pipeline": 2}}, 2, r"parallel.context: 2 does not divide what parallel.pipeline leaves of the ranks, 1:"),
            ({"parallel": {"context": 4, "context_by": "heads"}}, 4, r"parallel.context_by: 4 ranks cannot have as many heads each of 3, "
             r"which read 3 of keys; set it to \"keys\", or give another parallel.context$"),
            ({"parallel": {"context": 2, "context_by": "ring"}, "train": {"device": "cuda"}}, 2, r"parallel.context_by: keys and values go round on "
             r"CPUs alone so far; drop it, or set train.device to \"cpu\"$"),
            ({"parallel": {"context": 2}, "sequence_parallel_size": 4}, 4, r"parallel.context is 2, and sequence_parallel_size says 4"))
    for number, (keys, world, words) in enumerate(rows):
        c = s.config("refused%d.json" % number)
        with open(c, encoding="utf-8") as f:
            written = json.load(f)
        for key, value in keys.items():
            written[key] = {**written.get(key, {}), **value} if isinstance(value, dict) else value
        with open(c, "w", encoding="utf-8") as f:
            json.dump(written, f)
        program = s.start(c, world=world)
        if program.end() == 0:
            raise AssertionError("%r: not refused" % keys)
        program.expect(words)
    told = s.run(s.config("deepspeed.json", steps=1), "--set", "sequence_parallel_size=2", world=2)
    told.expect(r"^2 ranks share each sample, 16 tokens of it each")


training.main()
