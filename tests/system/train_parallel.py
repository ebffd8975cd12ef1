# SPDX-License-Identifier: Apache-2.0
#
# Ranks that share the tensors of each block: the same losses, checkpoints for any other world, and what is refused.

import shutil

import servers
import tap
import training

# Words that two and four ranks do not share evenly, and in a Llama some that they do.
GPT2 = {**training.GPT2, "n_head": 4, "vocab_size": 321}
QWEN = {**training.LLAMA, "model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True, "vocab_size": 323}
QWEN3 = {**QWEN, "model_type": "qwen3", "head_dim": 12}
GEMMA3 = {"model_type": "gemma3_text", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 32, "vocab_size": 322, "sliding_window": 9}

GEMMA2 = {**training.LLAMA, "model_type": "gemma2", "vocab_size": 321, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
          "query_pre_attn_scalar": 20, "sliding_window": 9, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


def cut(s, name, tensor, **more):
    return s.config(name, **{"parallel": {"tensor": tensor}, **more})


@training.story
def same_losses(s):
    """two and four ranks to a block, also more than key-value heads, with and without others beside them, at each stage, have the losses of one rank"""
    for model in (GPT2, training.LLAMA, QWEN, QWEN3, GEMMA3):
        kind = model["model_type"]
        alone = s.config(kind + ".json", model=model)
        s.run(alone)
        for world, tensor, stage in ((2, 2, 0), (4, 2, 0), (4, 2, 1), (4, 2, 2), (4, 2, 3), (4, 4, 2)):
            what = "%s: %d ranks, %d to a block, stage %d" % (kind, world, tensor, stage)
            c = cut(s, "%s%d%d%d.json" % (kind, world, tensor, stage), tensor, model=model, stage=stage)
            program = s.run(c, world=world)
            program.expect(r"^%d ranks share each block; %d such team" % (tensor, world // tensor))
            training.close(s.losses(c), s.losses(alone), 1e-6, what)
            training.close(s.norms(c), s.norms(alone), 1e-5, "norms, " + what)
            # Of the stream two sums in each block on each way, and one of the words on each.
            row, layers = s.steps(c)[1], model.get("n_layer", model.get("num_hidden_layers"))
            stream = row["tokens"] * tensor // world * 48 * 4
            tap.check_equal(row["team_bytes"], (4 * layers + 2) * stream, "bytes that a rank sums, " + what)


@training.story
def norms_behind_branches(s):
    """the same where a branch is normed before it is added to the stream, and ranks deal micro-batches among teams"""
    more = {"model": GEMMA2, "batch": 24}
    alone = s.config("alone.json", **more)
    s.run(alone)
    both = cut(s, "both.json", 4, stage=3, accumulation=3, dynamic_accumulation=True, **more)
    s.run(both, world=8)
    training.close(s.losses(both), s.losses(alone), 1e-5, "two teams against one rank")
    training.close(s.norms(both), s.norms(alone), 1e-5, "norms of two teams against one rank's")


@training.story
def recompute_and_accumulate(s):
    """the same with blocks gone through again, micro-steps added up, a validation, and numbers of 16 bits"""
    more = {"model": training.LLAMA, "accumulation": 3, "activation_checkpointing": {}, "bf16": {"enabled": True},
            "data": {"validation": s.data}, "validate_every": 4, "validation_batches": 2}
    alone = s.config("alone.json", **more)
    program = s.run(alone, world=2)
    wanted = float(program.expect(r"validation\D*([\d.]+)").group(1))
    both = cut(s, "both.json", 2, **more)
    program = s.run(both, world=4)
    training.close(s.losses(both), s.losses(alone), 1e-4, "two teams against two ranks")
    training.close([float(program.expect(r"validation\D*([\d.]+)").group(1))], [wanted], 1e-4, "validation")


@training.story
def any_world_goes_on(s):
    """a checkpoint of any world goes on in any other: 4 ranks for tensors, 2 by 2, or none"""
    worlds = ((4, 4), (4, 2), (1, 1), (2, 1))
    whole = s.config("whole.json", model=GPT2)
    s.run(whole)
    for world, tensor in worlds:
        half = cut(s, "half%d%d.json" % (world, tensor), tensor, model=GPT2, save_dir=s.path("half%d%d" % (world, tensor)))
        s.run(half, "--set", "train.steps=4", world=world)
    for number, (world, tensor) in enumerate(worlds):
        for other, before in enumerate(worlds):
            name = "from%d%dto%d%d" % (*before, world, tensor)
            shutil.copytree(s.path("half%d%d" % before), s.path(name))
            c = cut(s, name + ".json", tensor, model=GPT2, stage=(number + other) % 4, save_dir=s.path(name))
            program = s.run(c, world=world)
            program.expect(r"resumed from .*: step 4$")
            training.close(s.losses(c), s.losses(whole)[4:], 1e-6, name)


@training.story
def comes_back(s):
    """a rank that is killed costs no step, another world goes on from the checkpoint, which is a model that others open"""
    for world in (2, 4):
        name = "killed%d.json" % world
        c = cut(s, name, 2, model=training.LLAMA, steps=40, vault_every=1)
        s.run_killed(c, world, world - 1)
        alone = s.config("alone%d.json" % world, model=training.LLAMA, steps=40)
        s.run(alone)
        training.close(s.losses(c), s.losses(alone), 1e-5, "%d ranks, one of which was killed" % world)
    six = s.config("six.json", model=training.LLAMA, steps=4)
    s.run(six, "--set", "train.steps=6")
    c = cut(s, "ended.json", 4, model=training.LLAMA, steps=4, save_dir=s.path("ended"))
    s.run(c, world=4)
    program = s.run(c, "--set", "train.steps=6", "--set", "parallel.tensor=2", world=2)
    program.expect(r"^resumed from .*: step 4$")
    training.close(s.losses(c), s.losses(six), 1e-6, "begun by four ranks that share two key-value heads")
    folder = s.path("ended", s.checkpoints(s.path("ended"))[-1])
    begun = s.config("begun.json", model=training.LLAMA, steps=1)
    s.run(begun, "--init-from", folder)
    cut_too = cut(s, "begun2.json", 2, model=training.LLAMA, steps=1)
    s.run(cut_too, "--init-from", folder, world=2)
    training.close(s.losses(cut_too), s.losses(begun), 1e-6, "begun from its weights")


@training.story
def is_refused(s):
    """what cannot be cut is said before anything is trained"""
    rows = (({"parallel": {"tensor": 3}}, 3, r"4 heads cannot be cut by 3; this model can be cut by 2 and 4$"),
            ({"parallel": {"tensor": 2}}, 3, r"parallel.tensor: 2 does not divide the number of ranks, 3: give another --nproc-per-node"),
            ({"parallel": {"tensor": 2}, "lora": {"use_dora": True}}, 2, r"a norm of weights of which each rank would have some; drop it, or lora.use_dora"),
            ({"parallel": {"tensor": 2}, "lora": {"base": "nf4"}}, 2, r"weights in NF4 are packed whole, and not cut so far; drop it, or lora.base"),
            ({"parallel": {"tensor": 2}, "tensor_parallel": {"autotp_size": 4}}, 2, r"parallel.tensor is 2, and tensor_parallel says 4"))
    for number, (keys, world, words) in enumerate(rows):
        c = s.config("refused%d.json" % number, model=GPT2, **keys)
        program = s.start(c, world=world)
        if program.end() == 0:
            raise AssertionError("%r: not refused" % keys)
        program.expect(words)
    c = s.config("deepspeed.json", model=GPT2, tensor_parallel={"autotp_size": 2})
    s.run(c, world=2).expect(r"^2 ranks share each block; 1 such team")


@training.story
def hosts_differ(s):
    """hosts that are told of other meshes end, and the one that is not as rank 0's says so"""
    port = str(servers.free_port())
    nodes = [s.start(cut(s, "node%d.json" % node, node + 1, model=GPT2), world=2,
                     dtrun=("--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port))
             for node in range(2)]
    nodes[1].expect(r"parallel.tensor is 2 here, and 1 where rank 0 is; give all hosts the same configuration")
    for node in nodes:
        if node.end() == 0:
            raise AssertionError("it ended well")


training.main()
