# SPDX-License-Identifier: Apache-2.0
#
# The same losses: whatever the stage, the world, the accumulation, and whatever happened on the way.

import json
import os
import re
import shutil
import signal
import subprocess

import tap
import training


@training.story
def stages_worlds_accumulation(s):
    """stages 0 to 3, worlds 1, 2 and 4, accumulation 1 and 3 give the same losses, and the same bits where they must"""
    first = None
    for world in (1, 2, 4):
        for accumulation in (1, 3):
            by_stage = []
            for stage in (0, 1, 2, 3):
                c = s.config("c%d%d%d.json" % (world, accumulation, stage), stage=stage, accumulation=accumulation)
                s.run(c, world=world)
                by_stage.append(s.losses(c))
            what = "world %d, accumulation %d" % (world, accumulation)
            first = first or by_stage[0]
            training.close(by_stage[0], first, 1e-5, what + " against world 1")
            tap.check_equal(by_stage[1], by_stage[0], "losses of stage 1 and 0, " + what)
            tap.check_equal(by_stage[2], by_stage[0], "losses of stage 2 and 0, " + what)
            if accumulation == 1:
                tap.check_equal(by_stage[3], by_stage[0], "losses of stage 3 and 0, " + what)
            else:  # stage 3 adds micro-steps up behind the ranks
                training.close(by_stage[3], by_stage[0], 1e-6, "stage 3 and 0, " + what)
    if not first[-1] < first[0] - 0.3:
        raise AssertionError("the model learned nothing: %r" % first)


@training.story
def llama(s):
    """the same for a Llama with shared key heads and recomputed activations"""
    plain = s.config("plain.json", model=training.LLAMA)
    s.run(plain, world=1)
    sharded = s.config("sharded.json", model=training.LLAMA, stage=3, activation_checkpointing={})
    s.run(sharded, world=2)
    training.close(s.losses(sharded), s.losses(plain), 1e-5, "Llama, 2 ranks at stage 3 against 1 at stage 0")


@training.story
def alone(s):
    """without dtrun it is a world of one, with the same bits"""
    a, b = s.config("a.json"), s.config("b.json")
    s.run(a, world=0)
    s.run(b, world=1)
    tap.check_equal(s.losses(a), s.losses(b), "losses")


@training.story
def from_deepspeed(s):
    """a DeepSpeed configuration beside ours, and the options that DeepSpeed's launchers and scripts give: the same bits"""
    whole = s.config("whole.json", stage=2)
    s.run(whole, world=2)
    with open(whole, encoding="utf-8") as f:
        all_keys = json.load(f)
    ours = ("model", "data", "train")
    for i, options in enumerate((("--deepspeed", "ds.json"), ("--deepspeed_config=ds.json", "--local_rank=0"),
                                 ("--local_rank", "1", "--deepspeed", "--deepspeed_config", "ds.json"))):
        c = s.path("ours%d.json" % i)
        with open(c, "w", encoding="utf-8") as f:
            json.dump({key: all_keys[key] for key in ours}, f)
        with open(s.path("ds.json"), "w", encoding="utf-8") as f:
            json.dump({key: all_keys[key] for key in all_keys if key not in ours}, f)
        options = [word.replace("ds.json", s.path("ds.json")) for word in options]
        s.run(c, "--set", "train.metrics=" + c + ".jsonl", *options, world=2)
        tap.check_equal(s.losses(c), s.losses(whole), "losses with " + " ".join(options))


@training.story
def sixteen_bits(s):
    """bf16 and fp16 parameters train nearly as fp32, fp16 scales its losses, all stages alike"""
    c = s.config("f32.json")
    s.run(c, world=2)
    for block in ({"bf16": {"enabled": True}}, {"fp16": {"enabled": True, "initial_scale_power": 12}}):
        name = list(block)[0]
        by_stage = []
        for stage in (0, 2, 3):
            d = s.config("%s%d.json" % (name, stage), stage=stage, **block)
            s.run(d, world=2)
            by_stage.append(s.losses(d))
            tap.check_equal(by_stage[-1], by_stage[0], "losses of %s at stage %d and 0" % (name, stage))
        training.close(by_stage[0], s.losses(c), 1e-2, name + " against fp32")


@training.story
def killed(s):
    """without a vault a rank killed with -9 costs the steps since the last checkpoint and nothing else: the same bits"""
    whole = s.config("whole.json", stage=2, steps=training.LONG)
    s.run(whole, world=2)
    c = s.config("killed.json", stage=2, steps=training.LONG, save_every=5, save_dir=s.path("ckpt"), vault="off")
    program = s.start(c, world=2, dtrun=("--max-restarts", "1"))
    program.expect(r"step 17/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(r"resumed from .*: step (\d+)")
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


@training.story
def begins_anew(s):
    """--resume none and DIR are about a job's beginning: a restart goes on from what the job saved, not from an older run's"""
    older = s.config("older.json", stage=2, steps=4, save_every=2, save_dir=s.path("older"), seed=7)
    s.run(older, world=2)
    for resume in ("none", s.path("older")):
        name = "anew" if resume == "none" else "from"
        whole = s.config(name + "_whole.json", stage=2, steps=training.LONG)
        s.run(whole, "--resume", resume, world=2)
        c = s.config(name + ".json", stage=2, steps=training.LONG, save_every=5, save_dir=s.path(name), vault="off")
        s.run(older, "--set", "train.save_dir=" + s.path(name), "--set", "train.metrics=" + s.path("unread"), "--resume", "none",
              world=2)
        program = s.start(c, "--resume", resume, world=2, dtrun=("--max-restarts", "1"))
        program.expect(r"step 17/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        tap.check_equal(int(program.expect(r"resumed from %s/.*: step (\d+)" % s.path(name)).group(1)) >= 10, True, "its own")
        tap.check_equal(program.end(), 0, "exit status")
        tap.check_equal(s.losses(c)[-20:], s.losses(whole)[-20:], "losses, --resume " + resume)


@training.story
def keeps_histories_apart(s):
    """a run that begins elsewhere moves the checkpoints it finds aside, and one that goes back in its own folder does not"""
    c = s.config(steps=12, save_every=2, keep_last=0, save_dir=s.path("ckpt"))
    s.run(c, world=2)
    old = s.checkpoints(s.path("ckpt"))
    program = s.run(c, "--resume", "none", "--set", "train.steps=4", world=2)
    tap.check_equal(len([x for x in program.lines if x.startswith("dtrun-train: ") and "they are in %s now" % s.path("ckpt", "earlier-1") in x]), 1, "sentences")
    tap.check_equal(s.checkpoints(s.path("ckpt", "earlier-1")), old, "what was moved")
    tap.check_equal(s.checkpoints(s.path("ckpt")), ["step-00000002", "step-00000004"], "what was saved")
    program = s.run(c, "--resume", s.path("ckpt", "step-00000002"), "--set", "train.steps=3", world=1)
    tap.check_equal([x for x in program.lines if "earlier" in x], [], "of a run that went back")
    program = s.run(c, "--resume", s.path("ckpt", "earlier-1"), "--set", "train.steps=14", world=1)
    program.expect(r"they are in .*/earlier-2 now")
    program.expect(r"resumed from .*/earlier-1/step-00000012: step 12")
    tap.check_equal(s.checkpoints(s.path("ckpt")), ["step-00000014"], "what was saved")


@training.story
def says_what_is_new(s):
    """a run that is resumed with another seed, batch, order, file or length of samples says so, a line each, and which counts"""
    other = s.path("other.bin")
    with open(s.path("other.txt"), "w", encoding="utf-8") as f:
        f.write("Another text altogether. " * 400)
    subprocess.run([s.tools.train, "tokenize", s.path("other.txt"), "-o", other], check=True, stdout=subprocess.DEVNULL)
    c = s.config(steps=4, save_dir=s.path("ckpt"))
    s.run(c, world=2)
    says = {r"train\.seed is 8, and the run began with 7: that one stays": ("train.seed=8",),
            r"a step has 24 samples from here on; it had 12": ("train_batch_size=24",),
            r"data\.shuffle is false from here on; it was true": ("data.shuffle=false",),
            r"a sample has 16 tokens from here on; it had 32": ("data.sequence_length=16",),
            r"data\.train is another file than before": ("data.train=" + other,)}

    def told(steps, settings):
        words = sum((["--set", x] for x in (*settings, "train.steps=%d" % steps)), [])
        program = s.run(c, *words, world=2)
        return [text for text in says for line in program.lines if re.search("^dtrun-train: " + text, line)]

    tap.check_equal(told(5, ()), [], "what is said where all is as it was")
    for number, (text, settings) in enumerate(says.items()):
        tap.check_equal(told(6 + 2 * number, settings), [text], "what is said with %s" % settings)
        shutil.rmtree(s.path("ckpt"))
        s.run(c, "--resume", "none", "--set", "train.steps=4", world=2)
    tap.check_equal(told(30, sum(says.values(), ())), list(says), "what is said where all is new")
    with open(s.path("ckpt", "step-00000030", "state.json"), encoding="utf-8") as f:
        state = json.load(f)
    tap.check_equal((state["seed"], state["train_batch"], state["sequence_length"]), ("7", 24, 16), "what counts")


@training.story
def told_to_end(s):
    """SIGTERM saves the step at hand; the next start goes on from it, with the same bits"""
    whole = s.config("whole.json", stage=3, steps=training.LONG)
    s.run(whole, world=2)
    c = s.config("told.json", stage=3, steps=training.LONG, save_dir=s.path("ckpt"))
    program = s.start(c, world=2)
    program.expect(r"step 9/")
    program.kill(signal.SIGTERM)
    program.expect(r"told to end: step (\d+), loss [\d.]+, saved in ")
    tap.check_equal(program.end() != 0, True, "a job that was told to end says so")
    tap.check_equal(len(s.checkpoints(s.path("ckpt"))), 1, "checkpoints")
    s.run(c, world=2)
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


@training.story
def other_worlds(s):
    """on as many ranks as there are: 2, then 1, then 4, at other stages; the batch is kept, no sample is missed"""
    whole = s.config("whole.json", steps=12)
    s.run(whole, world=1)
    for world, stage, upto in ((2, 1, 4), (1, 0, 7), (4, 3, 12)):
        c = s.config("c.json", stage=stage, steps=12, save_dir=s.path("ckpt"))
        s.run(c, "--set", "train.steps=%d" % upto, world=world)
    training.close(s.losses(c), s.losses(whole), 1e-5, "three worlds against one")
    samples = [row["samples"] for _, row in sorted(s.steps(c).items())]
    tap.check_equal(samples, [12 * (i + 1) for i in range(12)], "samples")


@training.story
def balanced(s):
    """dynamic accumulation moves work between ranks and leaves the losses what they are"""
    even = s.config("even.json", steps=12, accumulation=3)
    s.run(even, world=2)
    for stage in (1, 3):
        c = s.config("balance%d.json" % stage, steps=12, accumulation=3, stage=stage,
                     train={"dynamic_accumulation": {"policy": "balance"}}, save_every=4, save_dir=s.path("ckpt%d" % stage))
        s.run(c, world=2)
        training.close(s.losses(c), s.losses(even), 1e-5, "balanced against even, stage %d" % stage)


training.main()
