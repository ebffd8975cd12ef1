# SPDX-License-Identifier: Apache-2.0
#
# Ranks that share the tensors of each block, and the rows of the stream between blocks: the same losses as one rank and as ranks that
# have all rows, checkpoints for any other world, and what is refused.


import servers
import tap
import training

GPT2 = {**training.GPT2, "n_head": 4, "vocab_size": 321}
MISTRAL = {**training.LLAMA, "model_type": "mistral", "vocab_size": 321, "sliding_window": 9}
QWEN2 = {**training.LLAMA, "model_type": "qwen2", "tie_word_embeddings": True, "vocab_size": 323}
QWEN3 = {**training.LLAMA, "model_type": "qwen3", "head_dim": 12}
GEMMA = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 12, "max_position_embeddings": 32, "vocab_size": 322}
GEMMAS = ({**GEMMA, "model_type": "gemma"},
          {**GEMMA, "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 9},
          {**GEMMA, "model_type": "gemma3_text", "sliding_window": 9})


def rows(s, name, tensor, sequence=True, mesh=None, **more):
    return s.config(name, **{"parallel": {"tensor": tensor, "sequence": sequence, **(mesh or {})}, **more})


def compare(s, c, wanted, what, relative=1e-6):
    training.close(s.losses(c), s.losses(wanted), relative, what)
    training.close(s.norms(c), s.norms(wanted), 10 * relative, "norms, " + what)


@training.story
def same_losses(s):
    """two and four ranks that share rows have the losses and norms of one rank, and of ranks that have all rows, at each stage"""
    worlds = ((2, 2, 0), (4, 2, 1), (4, 2, 2), (4, 2, 3), (4, 4, 2))
    for model in (GPT2, training.LLAMA, MISTRAL, QWEN2, QWEN3, *GEMMAS):
        kind = model["model_type"]
        alone, whole = s.config(kind + ".json", model=model), rows(s, kind + "-whole.json", 2, False, model=model)
        s.run(alone)
        s.run(whole, world=2)
        for world, tensor, stage in worlds if model in (GPT2, training.LLAMA) else worlds[1::3]:
            what = "%s: %d ranks, %d to a block, stage %d" % (kind, world, tensor, stage)
            c = rows(s, "%s%d%d%d.json" % (kind, world, tensor, stage), tensor, model=model, stage=stage)
            program = s.run(c, world=world)
            program.expect(r"^%d ranks share each block, and the rows between blocks; %d such team" % (tensor, world // tensor))
            compare(s, c, alone, what)
            compare(s, c, whole, what + ", beside all rows")
            tap.check_equal([r["team_bytes"] * world // tensor for r in s.steps(c).values()],
                            [r["team_bytes"] for r in s.steps(whole).values()], "bytes that are summed, " + what)


@training.story
def much_at_once(s):
    """the same with blocks gone through again, micro-steps dealt among teams, a validation whose last batch is small, and numbers of 16 bits"""
    for model, bf16, relative in ((training.LLAMA, True, 1e-4), (GEMMAS[1], False, 1e-6), (GPT2, False, 1e-6)):
        more = {"model": model, "accumulation": 3, "batch": 24, "activation_checkpointing": {}, "bf16": {"enabled": bf16},
                "data": {"validation": s.data}, "validate_every": 4, "validation_batches": 3}
        alone = s.config("alone.json", **more)
        wanted = float(s.run(alone, world=2).expect(r"validation\D*([\d.]+)").group(1))
        for stage in (0, 3):
            both = rows(s, "both%d.json" % stage, 2, stage=stage, dynamic_accumulation=True, **more)
            got = float(s.run(both, world=4).expect(r"validation\D*([\d.]+)").group(1))
            what = "two teams against two ranks, %s at stage %d" % (model["model_type"], stage)
            training.close(s.losses(both), s.losses(alone), relative, what)
            training.close([got], [wanted], 1e-4, "validation, " + what)
    small = {"model": GPT2, "batch": 14, "data": {"validation": s.data}, "validate_every": 8, "validation_batches": 1}
    got = [s.run(c, world=world).expect(r"validation\D*([\d.]+)").group(1)
           for c, world in ((s.config("small.json", **small), 1), (rows(s, "small2.json", 2, **small), 2))]
    training.close([float(got[1])], [float(got[0])], 1e-5, "validation of one batch")


@training.story
def in_any_mesh(s):
    """the same beside ranks that share layers, samples, or both, of packed documents"""
    gpt2 = {**GPT2, "n_positions": 64, "vocab_size": 320}
    llama = {**training.LLAMA, "max_position_embeddings": 64, "num_key_value_heads": 4}
    more = {"steps": 5, "accumulation": 4, "validate_every": 5, "validation_batches": 2, **training.conversations(s)}
    meshes = ({"pipeline": 2}, {"context": 2}, {"pipeline": 2, "schedule": "gpipe"}, {"pipeline": 2, "context": 2},
              {"context": 2, "context_by": "heads"})
    for model in (gpt2, llama):
        alone = s.config("alone.json", model=model, **more)
        wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
        for number, mesh in enumerate(meshes):
            what = "%s with %r" % (model["model_type"], mesh)
            world = 2 * mesh.get("pipeline", 1) * mesh.get("context", 1)
            c = rows(s, "mesh%d.json" % number, 2, mesh=mesh, model=model, stage=number % 3, **more)
            got = float(s.run(c, world=world).expect(r"validation\D*([\d.]+)").group(1))
            compare(s, c, alone, what, 1e-5)
            training.close([got], [wanted], 1e-4, "validation, " + what)


@training.story
def any_world_goes_on(s):
    """a checkpoint goes on with shared rows and without, among any ranks"""
    worlds = ((4, 4, True), (1, 1, False), (4, 2, True), (2, 2, False), (2, 2, True))
    whole = s.config("whole.json", model=GPT2, steps=10)
    s.run(whole)
    before = None
    for number, (world, tensor, sequence) in enumerate(worlds):
        c = rows(s, "part%d.json" % number, tensor, sequence, model=GPT2, steps=10, stage=number % 4, save_dir=s.path("saved"))
        end = 2 * (number + 1)
        program = s.run(c, "--set", "train.steps=%d" % end, world=world)
        if before is not None:
            program.expect(r"resumed from .*: step %d$" % before)
        before = end
        training.close(s.losses(c), s.losses(whole)[end - 2:end], 1e-6, "%d ranks, %d to a block, rows shared: %s" % worlds[number])


@training.story
def comes_back(s):
    """a rank that is killed costs no step"""
    alone = s.config("alone.json", model=training.LLAMA, steps=40)
    s.run(alone)
    for pipeline in (1, 2):
        c = rows(s, "killed%d.json" % pipeline, 2, mesh={"pipeline": pipeline}, model=training.LLAMA, steps=40, stage=2, vault_every=1)
        s.run_killed(c, 4, 3)
        training.close(s.losses(c), s.losses(alone), 1e-5, "%d stages, one rank of which was killed" % pipeline)


@training.story
def is_refused(s):
    """what cannot be shared evenly is said before anything is trained, and hosts that are told of other rows end"""
    cases = (({"sequence": True}, {}, 1, r"parallel.sequence: rows are shared by the ranks that share tensors, and parallel.tensor is 1; drop it"),
             ({"sequence": True, "tensor": 4}, {"sequence_length": 30}, 4,
              r"parallel.sequence: 30 tokens of a sample are not shared evenly by 4 ranks; give a data.sequence_length of 28, or another"),
             ({"sequence": True, "tensor": 4, "context": 3}, {"sequence_length": 30}, 12,
              r"parallel.sequence: 30 tokens of a sample are not shared evenly by 12 ranks; give a data.sequence_length of 24, or another"),
             ({"sequence": True, "tensor": 5, "context": 2}, {"sequence_length": 32}, 10,
              r"parallel.sequence: 32 tokens of a sample are not shared evenly by 10 ranks; give a data.sequence_length of 20, or another"),
             ({"sequence": True, "sequence_parallel": False, "tensor": 2}, {}, 2,
              r"parallel.sequence and parallel.sequence_parallel say opposite things; drop one of them"))
    for number, (parallel, data, world, words) in enumerate(cases):
        c = s.config("refused%d.json" % number, model=GPT2, parallel=parallel, data=data)
        program = s.start(c, world=world)
        if program.end() == 0:
            raise AssertionError("%r: not refused" % parallel)
        program.expect(words)
    megatron = s.config("megatron.json", model=GPT2, steps=1, parallel={"tensor": 2, "sequence_parallel": True})
    s.run(megatron, world=2).expect(r"^2 ranks share each block, and the rows between blocks; 1 such team")
    port = str(servers.free_port())
    nodes = [s.start(rows(s, "node%d.json" % node, 2, node == 0, model=GPT2), world=2,
                     dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
             for node in range(2)]
    nodes[1].expect(r"parallel.sequence is not what it is where rank 0 is; give all hosts the same configuration")
    for node in nodes:
        if node.end() == 0:
            raise AssertionError("it ended well")


training.main()
