# SPDX-License-Identifier: Apache-2.0
#
# Answers that are preferred to others: from a file of pairs to a model that has learned which are right, with the same losses at
# any stage and in any world, and what is refused on the way.

import json
import math
import os
import signal

import tap
import training

LLAMA = dict(training.LLAMA, max_position_embeddings=96)
GPT2 = dict(training.GPT2, n_positions=96)
LORA = {"r": 4, "alpha": 16, "dropout": 0.1, "target_modules": ["q_proj", "v_proj", "down_proj"]}


def tokenize(s, *words, status=0):
    program = s.start_words([s.tools.train, "tokenize", "--template", "plain", *words])
    tap.check_equal(program.end(), status, "exit status; it said\n%s\n" % "\n".join(program.lines))
    return program


def config(s, name, data, model=LLAMA, lora=None, dpo=None, **how):
    """A run that begins with a model that knows nothing; LORA False: without adapters."""
    base = s.path("base-" + model["model_type"])
    if not os.path.isdir(base):
        s.run(s.config("base.json", model=model, steps=1, save_dir=base), world=0)
    if lora is not False:
        how["lora"] = dict(LORA, **(lora or {}))
    c = s.config(name, model=model, dpo={"beta": 0.2, **(dpo or {})}, data=data, **how)
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    whole["model"]["weights"] = base
    with open(c, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    return c


def validations(config):
    with open(config + ".jsonl", encoding="utf-8") as f:
        return [row for row in map(json.loads, f) if "validation_loss" in row]


@training.story
def learned(s):
    """what is chosen becomes likelier than what is rejected, also of pairs that are held back; the first loss is ln 2"""
    for model, lora in ((LLAMA, {"use_dora": True}), (GPT2, {"target_modules": ["c_attn", "c_fc"]})):
        c = config(s, model["model_type"] + ".json", training.pairs(s), model=model, lora=lora, steps=16, batch=6, validate_every=8)
        program = s.run(c, world=2)
        program.expect(r"batch 6 = micro 3 x accumulation 1 x 2; 36 samples of 80 tokens")
        program.expect(r"DPO with beta 0\.2: each is a pair; \d+ % full, \d+ % compared")
        program.expect(r"step 1/16  loss 0\.6931  rewards -?0\.000 -?0\.000  margin -?0\.000  right \d+ %  lr")
        steps = s.steps(c)
        if abs(steps[1]["loss"] - math.log(2)) > 1e-6:
            raise AssertionError("the first loss is %r" % steps[1])
        last, held = steps[16], validations(c)
        tap.check_equal([row["step"] for row in held], [8, 16], "validations")
        tap.check_equal("perplexity" in held[0], False, "perplexity of pairs")
        for row, before in ((last, ""), (held[-1], "validation_")):
            if not (row[before + "loss"] < 0.6 and row[before + "reward_margin"] > 0.2 and row[before + "reward_accuracy"] > 0.9):
                raise AssertionError("little was learned: %r" % row)


@training.story
def any_world(s):
    """stages 0 to 3 and worlds 1 to 3 give the same losses, with dropout and accumulation, and stages of a world the same bits"""
    data, first = training.pairs(s), None
    for world, accumulation in ((1, None), (1, 3), (2, 3), (3, None)):
        by_stage = []
        for stage in (0, 1, 2, 3) if world == 2 else (0, 3):
            c = config(s, "c%d%d.json" % (world, stage), data, dpo={"sft": 0.3, "label_smoothing": 0.1}, stage=stage, steps=5, batch=6,
                       accumulation=accumulation)
            s.run(c, world=world)
            by_stage.append((s.losses(c), [row["reward_margin"] for row in s.steps(c).values()], validations(c)[-1]["validation_loss"]))
        first = first or by_stage[0]
        what = "%d ranks, accumulation %r" % (world, accumulation)
        training.close(by_stage[0][0], first[0], 1e-5, what)
        training.close([by_stage[0][2]], [first[2]], 1e-5, "validation, " + what)
        # Sums over micro-steps come behind those over ranks at stage 3 (dtrun/zero.h).
        for other in by_stage[1:-1] if world > 1 and accumulation else by_stage[1:]:
            tap.check_equal(other, by_stage[0], "stages, " + what)
        training.close(by_stage[-1][0], by_stage[0][0], 1e-6, "stage 3, " + what)


@training.story
def all_weights(s):
    """without adapters all weights are trained, beside a frozen copy: the same losses everywhere, also behind a resume"""
    data, first = training.pairs(s), None
    for world, stage in ((1, 0), (2, 0), (2, 3), (3, 2)):
        c = config(s, "c%d%d.json" % (world, stage), data, lora=False, stage=stage, steps=6, batch=6, save_every=3,
                   save_dir=s.path("ckpt%d%d" % (world, stage)))
        s.run(c, world=world)
        first = first or s.losses(c)
        training.close(s.losses(c), first, 1e-5, "stage %d, %d ranks" % (stage, world))
    if abs(first[0] - math.log(2)) > 1e-6 or not first[-1] < 0.6:
        raise AssertionError("the first loss is not ln 2, or nothing was learned: %r" % first)
    s.run(c, "--resume", s.path("ckpt20", "step-00000003"), "--set", "train.save_dir=" + s.path("again"), world=1)
    training.close(s.losses(c), first, 1e-5, "behind a resume")


@training.story
def shared_models(s):
    """ranks that share layers, or each of them, have the losses, rewards and validations of one, and go on from its checkpoints as it from theirs"""
    data = training.pairs(s)
    heads = dict(GPT2, n_head=4)
    rows = ((LLAMA, None, {"tensor": 2}, 1, 0), (LLAMA, None, {"tensor": 4, "sequence": True}, 1, 2), (LLAMA, False, {"tensor": 2}, 2, 3),
            (heads, {"target_modules": ["c_attn", "mlp.c_proj"]}, {"tensor": 2, "context": 2}, 1, 1),
            (heads, False, {"tensor": 2, "sequence": True}, 2, 1), (LLAMA, {"use_dora": True}, {"pipeline": 2}, 1, 0),
            (heads, False, {"pipeline": 2}, 2, 2), (LLAMA, False, {"pipeline": 2, "schedule": "zb-h1"}, 1, 1),
            (dict(LLAMA, num_hidden_layers=4), None, {"pipeline": 2, "schedule": "interleaved", "chunks": 2}, 1, 1),
            (LLAMA, None, {"pipeline": 2, "tensor": 2}, 1, 1), (heads, {"target_modules": ["c_fc"]}, {"pipeline": 2, "context": 2}, 1, 2))
    for number, (model, lora, parallel, others, stage) in enumerate(rows):
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("context", 1)
        how = {"steps": 5, "batch": 12, "accumulation": 2, "model": model, "lora": lora, "dpo": {"sft": 0.3}, "save_every": 3}
        what = "row %d, %r" % (number, parallel)
        alone = config(s, "alone%d.json" % number, data, save_dir=s.path("alone%d" % number), **how)
        s.run(alone)
        c = config(s, "cut%d.json" % number, data, stage=stage, parallel=parallel, save_dir=s.path("cut%d" % number), **how)
        s.run(c, world=ranks * others)
        training.close(s.losses(c), s.losses(alone), 1e-5, what)
        for name in ("reward_margin", "reward_accuracy"):
            of = [[row[name] for row in s.steps(one).values()] for one in (c, alone)]
            if max(abs(a - b) for a, b in zip(*of)) > 1e-5:
                raise AssertionError("%s, %s: %r" % (name, what, of))
        held = [[row["validation_loss"] for row in validations(one)] for one in (c, alone)]
        training.close(held[0], held[1], 1e-5, "validation, " + what)
        wanted = s.losses(alone)[-2:]
        for going, saved, world in ((c, "alone%d" % number, ranks), (alone, "cut%d" % number, 1)):
            s.run(going, "--resume", s.path(saved, "step-00000003"), "--set", "train.save_dir=" + s.path("again-%d-%s" % (number, saved)), world=world)
            training.close(s.losses(going)[-2:], wanted, 1e-5, "gone on, " + what)
        os.rename(s.path("base-" + model["model_type"]), s.path("base-%d" % number))  # the next row's may be of another size


@training.story
def resumed(s):
    """a run goes on from a checkpoint in another world, and from the death of a rank, with the losses of one that never ended"""
    data = training.pairs(s)
    how = {"steps": 8, "batch": 6}
    whole = config(s, "whole.json", data, **how)
    s.run(whole, world=2)
    c = config(s, "c.json", data, save_dir=s.path("ckpt"), save_every=4, **how)
    s.run(c, world=2)
    s.run(c, "--resume", s.path("ckpt", "step-00000004"), "--set", "train.save_dir=" + s.path("again"), world=3)
    training.close(s.losses(c), s.losses(whole), 1e-5, "behind a resume in another world")
    how = {"steps": training.LONG // 2, "batch": 6, "vault_every": 1, "stage": 3}
    whole, c = config(s, "long.json", data, **how), config(s, "killed.json", data, **how)
    s.run(whole, world=2)
    program = s.start(c, world=2, dtrun=("--max-restarts", "2"))
    program.expect(r"^step +5/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(r"^back at step \d+")
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal(s.steps(c).keys(), s.steps(whole).keys(), "steps")
    tap.check_equal(s.losses(c), s.losses(whole), "losses of a run that was killed")


@training.story
def too_long(s):
    """pairs that no sample has room for are left out, and the run says how many"""
    data = training.pairs(s)
    with open(s.path("pairs.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps({"prompt": "1+1", "chosen": "2" * 60, "rejected": "3"}) + "\n")
    tokenize(s, "--preferences", s.path("pairs.jsonl"), "-o", s.path("all.bin"))
    c = config(s, "c.json", dict(data, train=s.path("all.bin")), steps=1, batch=2)
    s.run(c, world=2).expect(r"data\.train: of 1 of 49 pairs both answers together are longer than data\.sequence_length \(80\), and "
                             r"they are left out; tokenize with --max-tokens 41, or give a greater one")


@training.story
def what_cannot_be(s):
    """pairs without the block dpo, the block without pairs or a model, and lines that are no preference are refused by name"""
    data = training.pairs(s)
    c = config(s, "c.json", data, steps=1)
    with open(s.path("sums.jsonl"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"instruction": "1+1", "output": "2"}) + "\n")
    tokenize(s, s.path("sums.jsonl"), "-o", s.path("sums.bin"))
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    with open(s.path("no-dpo.json"), "w", encoding="utf-8") as f:
        json.dump({k: v for k, v in whole.items() if k != "dpo"}, f)
    with open(s.path("no-lora.json"), "w", encoding="utf-8") as f:
        json.dump({k: v for k, v in whole.items() if k != "lora"}, f)
    rows = [
        (s.path("no-dpo.json"), [], r"data\.train: .*pairs\.bin: it holds pairs of answers, of which half are the worse ones"),
        (s.path("no-lora.json"), ["--set", "model.weights="], r"dpo: which model are answers compared with\?"),
        (s.path("no-lora.json"), ["--set", "train.save_dir=" + s.path("base-llama")],
         r"dpo: answers are compared with the model in .*base-llama/step-00000001, a checkpoint in this run's own train\.save_dir"),
        (c, ["--set", "data.train=" + s.path("sums.bin")], r"data\.train: .*sums\.bin: the block \"dpo\" trains with pairs of answers"),
        (c, ["--set", "data.validation=" + s.path("sums.bin")], r"data\.validation: .*sums\.bin: the block \"dpo\" trains with pairs"),
    ]
    for path, words, sentence in rows:
        program = s.start(path, *words, world=0)
        program.expect(sentence)
        tap.check_equal(program.end(), 2, "exit status of " + sentence)
    program = tokenize(s, "--preferences", s.path("sums.jsonl"), "-o", s.path("none.bin"), status=2)
    program.expect(r"sums\.jsonl:1: it has no chosen, so it is no preference")
    tap.check_equal(os.path.exists(s.path("none.bin")), False, "a file of nothing")


training.main()
