# SPDX-License-Identifier: Apache-2.0
#
# Models with experts: the same losses in any world and at any stage, checkpoints that others open, and what is refused.

import json
import math
import re
import shutil
import struct
import subprocess

import tap
import training

COMMON = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 32, "vocab_size": 320, "num_experts_per_tok": 2}
MIXTRAL = {**COMMON, "model_type": "mixtral", "intermediate_size": 36, "num_local_experts": 5}
QWEN2 = {**COMMON, "model_type": "qwen2_moe", "num_experts": 6, "moe_intermediate_size": 20,
         "shared_expert_intermediate_size": 28, "tie_word_embeddings": True}
QWEN3 = {**COMMON, "model_type": "qwen3_moe", "num_experts": 7, "moe_intermediate_size": 24, "norm_topk_prob": True, "head_dim": 12}
# An auxiliary loss that shows.
EVEN = {"output_router_logits": True, "router_aux_loss_coef": 0.3, "router_z_loss_coef": 0.1}


@training.story
def same_losses(s):
    """one, two and three ranks have the same losses at each stage, each micro-batch with its own auxiliary loss"""
    for model in (MIXTRAL, QWEN2, QWEN3):
        kind = model["model_type"]
        alone = s.config(kind + ".json", model={**model, **EVEN}, accumulation=6)
        s.run(alone)
        for world, stage in ((1, 3), (2, 0), (2, 1), (2, 3), (3, 2), (3, 3)):
            what = "%s: %d ranks, stage %d" % (kind, world, stage)
            c = s.config("%s%d%d.json" % (kind, world, stage), model={**model, **EVEN}, accumulation=6 // world, stage=stage)
            s.run(c, world=world)
            training.close(s.losses(c), s.losses(alone), 1e-5, what)
            norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
            training.close(*norms, 1e-4, "norms, " + what)
    plain = s.config("plain.json", model=QWEN3, accumulation=6)
    s.run(plain)
    if abs(s.losses(plain)[-1] - s.losses(alone)[-1]) < 1e-5:
        raise AssertionError("the auxiliary loss changes nothing")


def same_as_alone(s, name, model, world, parallel, stage=1, accumulation=1, **more):
    """Losses and norms of a world, beside those of one rank with the same micro-batches: an auxiliary loss is of each."""
    share = math.prod(n for key, n in parallel.items() if key in ("context", "pipeline", "tensor"))
    alone = s.config(name + ".json", model=model, steps=5, accumulation=accumulation * world // share, **more)
    c = s.config(name + "2.json", model=model, steps=5, stage=stage, accumulation=accumulation, parallel=parallel, **more)
    said, program = s.run(alone), s.run(c, world=world)
    if "validate_every" in more:
        wanted, got = (float(x.expect(r"validation\D*([\d.]+)").group(1)) for x in (said, program))
        training.close([got], [wanted], 1e-4, "validation, " + name)
    training.close(s.losses(c), s.losses(alone), 1e-5, name)
    norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
    training.close(*norms, 1e-5, "norms, " + name)
    return program


@training.story
def with_samples_and_layers(s):
    """ranks that share samples, or layers, of a model with experts have the losses of one rank; an auxiliary loss is that of whole samples"""
    same_as_alone(s, "halves", {**MIXTRAL, **EVEN}, 2, {"context": 2})
    same_as_alone(s, "again", {**QWEN2, **EVEN}, 4, {"context": 2, "context_by": "heads"}, stage=3, accumulation=2, activation_checkpointing={})
    same_as_alone(s, "stages", QWEN3, 2, {"pipeline": 2}, accumulation=4).expect(r"^a pipeline of 2 stages, with 1 \+ 1 blocks")
    same_as_alone(s, "tied", QWEN2, 4, {"pipeline": 2, "context": 2}, stage=2, accumulation=2)
    uneven = {**MIXTRAL, **EVEN, "num_hidden_layers": 5}
    same_as_alone(s, "even", uneven, 3, {"pipeline": 3}, accumulation=6)
    same_as_alone(s, "even-gpipe", {**QWEN2, **EVEN}, 2, {"pipeline": 2, "schedule": "gpipe"}, accumulation=4, activation_checkpointing={})
    same_as_alone(s, "even-chunks", uneven, 4, {"pipeline": 2, "schedule": "interleaved", "chunks": 2, "context": 2}, accumulation=4, stage=2)


@training.story
def recomputed(s):
    """the same bits where blocks are gone through again, and without an auxiliary loss where nobody asks for one"""
    for model in (MIXTRAL, QWEN2):
        kind = model["model_type"]
        kept = s.config(kind + ".json", model=model)
        again = s.config(kind + "again.json", model={**model, "router_aux_loss_coef": 0.3}, activation_checkpointing={})
        s.run(kept)
        s.run(again)
        tap.check_equal(s.losses(again), s.losses(kept), kind)


def names_in(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        return {name for name in json.loads(f.read(size)) if name != "__metadata__"}


def said(s, *words, status=0):
    done = subprocess.run([s.tools.train, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=tap.die_with_parent)
    tap.check_equal(done.returncode, status, "exit status of %r; it said\n%s\n" % (words, done.stderr))
    return done.stdout + (done.stderr if status else "")


@training.story
def checkpoints(s):
    """a checkpoint goes on in another world, has Hugging Face's names, and is a model to begin with and to generate with"""
    wanted = {"mixtral": "model.layers.1.block_sparse_moe.experts.4.w2.weight model.layers.0.block_sparse_moe.gate.weight",
              "qwen2_moe": "model.layers.1.mlp.experts.5.up_proj.weight model.layers.0.mlp.shared_expert_gate.weight "
                           "model.layers.0.mlp.shared_expert.down_proj.weight",
              "qwen3_moe": "model.layers.1.mlp.experts.6.gate_proj.weight model.layers.0.mlp.gate.weight"}
    for stage, model in enumerate((MIXTRAL, QWEN2, QWEN3), 1):
        kind, folder = model["model_type"], s.path(model["model_type"])
        whole = s.config(kind + ".json", model=model, stage=stage)
        s.run(whole, world=2)
        half = s.config(kind + "half.json", model=model, stage=stage, save_dir=folder)
        s.run(half, "--set", "train.steps=4", world=2)
        s.run(half, world=3).expect(r"resumed from .*: step 4$")
        training.close(s.losses(half)[-4:], s.losses(whole)[4:], 1e-5, kind)
        said(s, "export", folder, "--to", "hf", "-o", s.path(kind + "hf"))
        names = names_in(s.path(kind + "hf", "model.safetensors"))
        for name in wanted[kind].split():
            if name not in names:
                raise AssertionError("%s is not among %r" % (name, sorted(names)))
        begun = s.config(kind + "begun.json", model={}, steps=1, validation_batches=1)
        with open(begun, encoding="utf-8") as f:
            c = json.load(f)
        c["model"] = {"weights": s.path(kind + "hf")}
        with open(begun, "w", encoding="utf-8") as f:
            json.dump(c, f)
        s.run(begun)
        if s.losses(begun)[0] > s.losses(whole)[3]:
            raise AssertionError("what was begun with has learnt nothing: %r, %r" % (s.losses(begun), s.losses(whole)))
        one = said(s, "generate", s.path(kind + "hf"), "--prompt", "The ", "--max-new-tokens", "20", "--temperature", "0")
        tap.check_equal(said(s, "generate", folder, "--prompt", "The ", "--max-new-tokens", "20", "--temperature", "0"), one, "text")


@training.story
def is_refused(s):
    """what experts do not go with, and what cannot be, is said in a sentence that names it"""
    rows = (({}, {"lora": {"r": 2}}, r"lora: adapters are not made for the experts of a model so far"),
            ({}, {"dpo": {}}, r"dpo: models with experts are not trained with pairs of answers so far"),
            (EVEN, {"parallel": {"pipeline": 2}, "device": "cuda"}, r"parallel.pipeline: stages tell each other on CPUs alone so far which experts "
             r"were picked; drop it, set output_router_logits to false, or train.device to \"cpu\""),
            ({}, {"parallel": {"context": 2}, "device": "cuda"}, r"parallel.context: of a model with experts ranks share samples on CPUs alone so far"),
            ({"num_experts_per_tok": 8}, {}, r"num_experts_per_tok: there are fewer experts than that"),
            ({"num_experts": 1025}, {}, r"num_experts: .*1024"),
            ({"decoder_sparse_step": 2}, {}, r"decoder_sparse_step: it changes what a model computes, and is not implemented"),
            ({"mlp_only_layers": [0]}, {}, r"mlp_only_layers: it changes what a model computes, and is not implemented"),
            ({"moe_intermediate_size": None}, {}, r"\"moe_intermediate_size\" is missing"))
    for number, (model, keys, words) in enumerate(rows):
        c = s.config("refused%d.json" % number, model={**QWEN3, **model}, **keys)
        s.run(c, status=2, world=0).expect(words)
    folder = s.path("saved")
    s.run(s.config("saved.json", model=QWEN3, steps=1, save_dir=folder))
    for words, why in ((("--to", "gguf", "-o", s.path("x.gguf")), "a model of this family is not written as GGUF yet"),
                       (("--to", "hf", "--dtype", "nf4", "-o", s.path("x")), "a model with experts is not rounded to 4 bits so far")):
        out = said(s, "export", folder, *words, status=2)
        if why not in out:
            raise AssertionError("not %r: %s" % (why, out))


@training.story
def estimated(s):
    """an estimate counts all experts, and what is told of a run is the model's name"""
    c = s.config("c.json", model=QWEN3)
    block = 3 * 24 * 48 * 7 + 48 * 7 + 3 * 48 * 48 + 2 * 48 + 2 * 12
    numbers = 2 * block + 2 * 320 * 48 + 48
    out = said(s, "--estimate=" + c)
    if not re.search(r"^\* 0 +%d KiB" % round(numbers * 4 / 1024), out, re.M):
        raise AssertionError("not %d numbers:\n%s" % (numbers, out))
    s.run(c).expect(r"Qwen3-MoE")


@training.story
def shared_among_ranks(s):
    """ranks that share the experts of each block have the losses of one rank, with and without others beside them, at each stage"""
    for model in (MIXTRAL, QWEN2, QWEN3):
        kind = model["model_type"]
        model = {**model, "num_local_experts" if kind == "mixtral" else "num_experts": 6, **EVEN}
        alone = s.config(kind + ".json", model=model, accumulation=12, validation_batches=5, validate_every=4, data={"validation": s.data})
        wanted = float(s.run(alone).expect(r"validation\D*([\d.]+)").group(1))
        for world, expert, stage in ((2, 2, 0), (3, 3, 1), (4, 2, 2), (4, 2, 3), (6, 6, 3)):
            what = "%s: %d ranks, %d to the experts, stage %d" % (kind, world, expert, stage)
            c = s.config("%s%d%d%d.json" % (kind, world, expert, stage), model=model, accumulation=12 // world, stage=stage,
                         parallel={"expert": expert}, validation_batches=5, validate_every=4, data={"validation": s.data})
            program = s.run(c, world=world)
            program.expect(r"^%d ranks share the experts of each block; %d such team" % (expert, world // expert))
            training.close(s.losses(c), s.losses(alone), 1e-5, what)
            norms = [[row["grad_norm"] for _, row in sorted(s.steps(x).items())] for x in (c, alone)]
            training.close(*norms, 1e-4, "norms, " + what)
            training.close([float(program.expect(r"validation\D*([\d.]+)").group(1))], [wanted], 1e-4, "validation, " + what)


@training.story
def shared_beside_samples_and_layers(s):
    """ranks that share experts, and others to a sample or to layers, have the losses of one rank, and their checkpoint goes on in any other world"""
    even, tied = {**MIXTRAL, "num_local_experts": 4, **EVEN}, {**QWEN2, "num_experts": 4, **EVEN}
    plain = {**QWEN3, "num_experts": 4}
    same_as_alone(s, "samples", even, 4, {"expert": 2, "context": 2}, stage=3, accumulation=2)
    same_as_alone(s, "layers", plain, 4, {"expert": 2, "pipeline": 2}, accumulation=3)
    same_as_alone(s, "ends", tied, 4, {"expert": 2, "pipeline": 2}, stage=2, accumulation=2, validate_every=5, validation_batches=3,
                  data={"validation": s.data})
    same_as_alone(s, "all", tied, 8, {"expert": 2, "context": 2, "pipeline": 2}, accumulation=2)
    chunks = {"expert": 2, "pipeline": 2, "schedule": "interleaved", "chunks": 2}
    same_as_alone(s, "chunks", {**tied, "num_hidden_layers": 4}, 4, chunks, stage=2, accumulation=2, validate_every=5, validation_batches=3,
                  data={"validation": s.data})
    whole = s.config("whole.json", model=tied, accumulation=4, batch=8, steps=10)
    s.run(whole)
    worlds = ((4, {"expert": 2, "pipeline": 2}), (2, {"context": 2}), (8, {"expert": 2, "context": 2, "pipeline": 2}), (4, {"expert": 4}),
              (4, {"expert": 2, "context": 2}))
    for number, (world, parallel) in enumerate(worlds):
        c = s.config("part%d.json" % number, model=tied, parallel=parallel, batch=8, steps=10, stage=number % 3, save_dir=s.path("saved"),
                     accumulation=4 * math.prod(parallel.values()) // world if "expert" not in parallel else
                     4 * math.prod(parallel.values()) // world // parallel["expert"])
        program = s.run(c, "--set", "train.steps=%d" % (2 * (number + 1)), world=world)
        if number:
            program.expect(r"resumed from .*: step %d$" % (2 * number))
        training.close(s.losses(c), s.losses(whole)[2 * number:2 * number + 2], 1e-5, "%d ranks, %r" % (world, parallel))


@training.story
def cut_by_tensors(s):
    """ranks that share each expert have the losses and norms of one rank, and the rows between blocks with them or without, beside any others"""
    for model in (MIXTRAL, QWEN2, QWEN3):
        kind = model["model_type"]
        even = {**model, "num_local_experts" if kind == "mixtral" else "num_experts": 4, **EVEN}
        seed = {"seed": 8}  # of 7 a token is so near to two experts that rounding picks
        same_as_alone(s, kind + "-two", even, 2, {"tensor": 2}, stage=0, accumulation=2, **seed).expect(r"^2 ranks share each block; 1 such team for data")
        same_as_alone(s, kind + "-rows", even, 4, {"tensor": 2, "sequence": True}, stage=3, accumulation=2, **seed)
        same_as_alone(s, kind + "-four", even, 4, {"tensor": 4, "sequence": True}, stage=1, accumulation=3, activation_checkpointing={}, **seed)
        program = same_as_alone(s, kind + "-experts", even, 4, {"tensor": 2, "expert": 2}, stage=2, accumulation=2, **seed)
        program.expect(r"^2 ranks share the experts of each block; 1 such team$")
        same_as_alone(s, kind + "-all", even, 8, {"tensor": 2, "sequence": True, "expert": 2, "context": 2}, stage=3, accumulation=2, **seed)
        same_as_alone(s, kind + "-layers", even, 8, {"tensor": 2, "sequence": True, "expert": 2, "pipeline": 2}, stage=2, accumulation=3, **seed)
        same_as_alone(s, kind + "-validated", even, 8, {"tensor": 2, "expert": 4}, stage=3, accumulation=1, **seed, validate_every=5,
                      validation_batches=3, data={"validation": s.data})


def weights_of(s, step):
    with open(s.path("saved", "step-%08d" % step, "model.safetensors"), "rb") as f:
        return f.read()


@training.story
def cut_and_put_together(s):
    """a checkpoint that nothing is learnt from stays as it is to the byte, through each mesh that cuts experts"""
    model, still = {**QWEN2, "num_experts": 4}, {"optimizer": {"params": {"lr": 0}}, "batch": 8}
    s.run(s.config("first.json", model=model, steps=1, batch=8, save_dir=s.path("saved")))
    first = weights_of(s, 1)
    meshes = ({"tensor": 2}, {"tensor": 4, "expert": 2, "sequence": True}, {"tensor": 2, "expert": 2, "pipeline": 2}, {"expert": 4}, {"tensor": 4})
    for number, parallel in enumerate(meshes):
        c = s.config("mesh%d.json" % number, model=model, parallel=parallel, steps=number + 2, stage=number % 3, save_dir=s.path("saved"), **still)
        world = math.prod(n for key, n in parallel.items() if key != "sequence")
        s.run(c, world=world).expect(r"resumed from .*: step %d$" % (number + 1))
        if weights_of(s, number + 2) != first:
            raise AssertionError("%r: other weights" % parallel)


@training.story
def shared_goes_on(s):
    """a checkpoint of ranks that share experts goes on in any other world, and theirs in that; so does a folder to begin with"""
    model = {**QWEN2, **EVEN}
    worlds = ((1, 1), (4, 2), (3, 3), (2, 1))
    whole = s.config("whole.json", model=model, accumulation=12)
    s.run(whole)
    for world, expert in worlds:
        half = s.config("half%d%d.json" % (world, expert), model=model, accumulation=12 // world, parallel={"expert": expert},
                        save_dir=s.path("half%d%d" % (world, expert)))
        s.run(half, "--set", "train.steps=4", world=world)
    for number, (world, expert) in enumerate(worlds):
        for other, before in enumerate(worlds):
            name = "from%d%dto%d%d" % (*before, world, expert)
            shutil.copytree(s.path("half%d%d" % before), s.path(name))
            c = s.config(name + ".json", model=model, accumulation=12 // world, parallel={"expert": expert}, stage=(number + other) % 4,
                         save_dir=s.path(name))
            s.run(c, world=world).expect(r"resumed from .*: step 4$")
            training.close(s.losses(c), s.losses(whole)[4:], 1e-5, name)
    begun = [s.config("begun%d.json" % expert, model=model, accumulation=2, batch=4, steps=2, parallel={"expert": expert}) for expert in (1, 2)]
    for c in begun:
        s.run(c, "--init-from", s.path("half42", "step-00000004"), world=2)
    training.close(s.losses(begun[1]), s.losses(begun[0]), 1e-5, "begun from its weights")


@training.story
def comes_back(s):
    """of ranks that share experts, and layers or tensors, one that is killed costs no step"""
    model, more = {**MIXTRAL, "num_local_experts": 4}, {"steps": 40, "accumulation": 3}
    alone = s.config("alone.json", model=model, **more)
    s.run(alone)
    for number, other in enumerate(({"pipeline": 2}, {"tensor": 2, "sequence": True})):
        c = s.config("killed%d.json" % number, model=model, vault_every=1, parallel={"expert": 2, **other}, **more)
        s.run_killed(c, 4, 3)
        training.close(s.losses(c), s.losses(alone), 1e-4, "4 ranks, %r, one of which was killed" % other)


@training.story
def sharing_is_refused(s):
    """what cannot be shared is said before anything is trained"""
    rows = ((QWEN3, {"parallel": {"expert": 2}}, 2, r"parallel.expert: 7 experts cannot be cut by 2; this model can be cut by 7$"),
            (QWEN3, {"parallel": {"expert": 7}}, 2, r"parallel.expert: 7 does not divide the number of ranks, 2, and of this host"),
            (training.LLAMA, {"parallel": {"expert": 2}}, 2, r"parallel.expert: this model has no experts; drop it"),
            (QWEN2, {"parallel": {"expert": 2}, "dynamic_accumulation": True}, 2, r"parallel.expert: it does not go with train.dynamic_accumulation"),
            (QWEN2, {"parallel": {"expert": 2, "pipeline": 2}}, 2, r"parallel.expert: 2 does not divide what parallel.pipeline and "
             r"parallel.context leave of the ranks, 1: give another --nproc-per-node"),
            (QWEN2, {"parallel": {"expert": 2, "tensor": 2}}, 2, r"parallel.expert: 2 does not divide what parallel.tensor leaves of the ranks, 1, "
             r"and of this host's, 1: those who share experts are to be on one host"),
            (QWEN2, {"parallel": {"expert": 2, "tensor": 2, "pipeline": 2}}, 4, r"parallel.expert: 2 does not divide what parallel.tensor, "
             r"parallel.pipeline and parallel.context leave of the ranks, 1: give another --nproc-per-node"),
            ({**QWEN2, "moe_intermediate_size": 18}, {"parallel": {"tensor": 4}}, 4, r"parallel.tensor: 18 numbers of an expert's inner width "
             r"cannot be cut by 4; this model can be cut by 2$"),
            ({**QWEN2, "shared_expert_intermediate_size": 27}, {"parallel": {"tensor": 2}}, 2, r"parallel.tensor: 27 numbers of the shared "
             r"expert's inner width cannot be cut by 2; this model can be cut by nothing$"))
    for number, (model, keys, world, words) in enumerate(rows):
        program = s.start(s.config("refused%d.json" % number, model=model, **keys), world=world)
        if program.end() == 0:
            raise AssertionError("%r: not refused" % keys)
        program.expect(words)
    c = s.config("threads.json", model=QWEN2, parallel={"tensor": 2}, threads=0)
    worker = ["sh", "-c", "OMP_NUM_THREADS=$((RANK + 1)) exec \"$@\"", "sh", s.tools.train, "--config", c]
    program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--no-python", *worker])
    program.expect(r"parallel.tensor: this rank computes with 1 thread, and another one that shares its experts with 2, whose router")
    if program.end() == 0:
        raise AssertionError("other threads: not refused")


training.main()
