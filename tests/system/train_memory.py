# SPDX-License-Identifier: Apache-2.0
#
# Memory: what --estimate says before a run is what the run has taken, and what is said where there is not enough.

import os
import re

import tap
import training

LLAMA = {**training.LLAMA, "hidden_size": 64, "intermediate_size": 176, "max_position_embeddings": 96}
GPT2 = {**training.GPT2, "n_embd": 64, "n_head": 4, "n_positions": 96}
EXPERTS = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
LORA, NF4 = {"lora": {"r": 4}}, {"lora": {"r": 4, "base": "nf4"}}
RECOMPUTE = ("--set", "model.activation_checkpointing=true")


def weights(s, model):
    """What names a model that knows nothing."""
    folder = s.path("base-" + model["model_type"])
    if not os.path.isdir(folder):
        s.run(s.config("base.json", model=model, steps=1, save_dir=folder), world=0)
    return "--set", "model.weights=" + folder


def check_estimate(s, name, model, world, stage, words=(), **how):
    c = s.config("%s-%d-%d.json" % (name, world, stage), model=model, stage=stage, batch=4, accumulation=1, steps=1, **how)
    words = (*weights(s, model), *words)
    ran = "\n".join(s.run(c, *words, world=world).lines)
    told = re.search(r"\n(\S+ \w+) of memory in each rank; (\S+ \w+) of that are for activations", ran)
    program = s.start_words([s.tools.train, "--estimate", c, *words, "--world", str(world)])
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    row = [re.split(r"\s{2,}", line) for line in program.lines if line.startswith("* ")][0]
    what = "activations and total of %s, %d ranks at stage %d" % (name, world, stage)
    tap.check_equal((row[4], row[6]), (told[2], told[1]), what)


@training.story
def told_before(s):
    """what a run has taken is what --estimate said, to the last digit that is printed, of all that may be trained and at each stage"""
    pairs = {"dpo": {}, "data": training.pairs(s)}
    for world, stage in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3)):
        check_estimate(s, "full", LLAMA, world, stage)
        check_estimate(s, "nf4", LLAMA, world, stage, **NF4)
    check_estimate(s, "recomputed", LLAMA, 1, 1, RECOMPUTE)
    for stage in (0, 3):
        check_estimate(s, "tensor", GPT2, 4, stage, parallel={"tensor": 2})
        check_estimate(s, "heads", GPT2, 4, stage, parallel={"context": 2, "context_by": "heads"})
        check_estimate(s, "ring", GPT2, 4, stage, parallel={"context": 4, "context_by": "ring"})
        check_estimate(s, "experts", EXPERTS, 4, stage, parallel={"expert": 2, "context": 2})
        check_estimate(s, "experts-cut", EXPERTS, 4, stage, parallel={"expert": 2, "tensor": 2, "sequence": True})
        check_estimate(s, "sequence", GPT2, 4, stage, parallel={"tensor": 2, "sequence": True})
    check_estimate(s, "sequence-llama", LLAMA, 4, 2, RECOMPUTE, parallel={"tensor": 4, "sequence": True})
    check_estimate(s, "lora", LLAMA, 2, 3, **LORA)
    check_estimate(s, "nf4-gpt2", GPT2, 1, 0, **NF4)
    check_estimate(s, "dora", LLAMA, 2, 2, lora={"r": 4, "use_dora": True, "dropout": 0.1})
    check_estimate(s, "dropout", {**GPT2, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.1}, 2, 1)
    check_estimate(s, "dpo", LLAMA, 2, 1, **pairs)
    check_estimate(s, "dpo-lora", GPT2, 2, 3, RECOMPUTE, **pairs, **LORA)


@training.story
def advised(s):
    """a run that is larger than the memory there is says so before it takes any, and what would take less; and so does the refusal"""
    c = s.config(model=LLAMA, batch=10**9)
    sanitized = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":allocator_may_return_null=1"}
    said = "\n".join(s.run(c, *weights(s, LLAMA), world=0, status=1, env=sanitized).lines)
    advice = (r"; try train_micro_batch_size_per_gpu (\d+) with gradient_accumulation_steps \d+ \(saves [0-9.]+ \w+\), "
              r"model\.activation_checkpointing true \([0-9.]+ \w+\), data\.sequence_length 48 \(")
    for sentence in (r"this run wants about [0-9.]+ \wiB, and [0-9.]+ \wiB of this host's memory are left, so the kernel may kill it",
                     r"no memory for (a micro-batch|\d+ bytes of activations on the CPU)"):
        if not re.search(sentence + advice, said):
            raise AssertionError("there is no \"%s%s\" in\n%s" % (sentence, advice, said))
    micro = re.search(advice, said).group(1)
    program = s.start_words([s.tools.train, "--estimate", c, "--set", "train_micro_batch_size_per_gpu=" + micro])
    program.expect("it fits$")


training.main()
