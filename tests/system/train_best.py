# SPDX-License-Identifier: Apache-2.0
#
# The best checkpoint and the early end, by the loss of validations: a model that learns one text by heart gets worse at
# another one.

import json
import os
import signal
import subprocess

import tap
import training

TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 16, "vocab_size": 320}
EVERY, STEPS, PATIENCE = 3, 48, 4


def texts(s):
    """What is learned by heart, and what is validated on."""
    names = {"heart": "the cat sat on the mat. " * 40, "other": "no dog ran up that hill; a man did, then he sat. " * 10}
    for name, text in names.items():
        with open(s.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        subprocess.run([s.tools.train, "tokenize", s.path(name), "-o", s.path(name + ".bin")], check=True,
                       stdout=subprocess.DEVNULL)
    return {"data": {"train": s.path("heart.bin"), "validation": s.path("other.bin")}}


def config(s, name, folder, **train):
    how = {"steps": STEPS, "batch": 4, "validate_every": EVERY, "validation_batches": 100, "save_every": 5, "stage": 2,
           "train_micro_batch_size_per_gpu": 2, **texts(s)}
    how.update(train)
    micro, stop = how.pop("train_micro_batch_size_per_gpu"), how.pop("early_stop", None)
    c = s.config(name, model=TINY, save_dir=s.path(folder), optimizer={"params": {"lr": 6e-3}}, **how)
    with open(c, encoding="utf-8") as f:
        all_keys = json.load(f)
    all_keys["scheduler"] = {"type": "constant"}
    all_keys["train_micro_batch_size_per_gpu"] = micro
    if stop:
        all_keys["train"]["early_stop"] = stop
    with open(c, "w", encoding="utf-8") as f:
        json.dump(all_keys, f)
    return c


def validations(c):
    """{step: loss}; the last word on a step counts."""
    with open(c + ".jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return {r["step"]: r["validation_loss"] for r in rows if "validation_loss" in r}


def best_of(losses):
    return min(losses, key=lambda step: losses[step])


def early_end(losses, patience, min_delta=0.0):
    """The step behind which a run ends; the last where it does not."""
    best, worse = None, 0
    for step, loss in sorted(losses.items()):
        worse = 0 if best is None or best - loss > min_delta else worse + 1
        best = loss if best is None else min(best, loss)
        if worse == patience:
            return step
    return max(losses)


def named_best(s, folder):
    return int(os.readlink(s.path(folder, "best")).removeprefix("step-"))


def state_of(s, folder, name):
    with open(s.path(folder, name, "state.json"), encoding="utf-8") as f:
        return json.load(f)


def whole_run(s):
    """Its validations, and the step of the best, which is in its middle."""
    c = config(s, "whole.json", "whole", save_every=0)
    s.run(c, world=1)
    losses = validations(c)
    best = best_of(losses)
    if not EVERY < best < early_end(losses, PATIENCE) < STEPS:
        raise AssertionError("validations that prove nothing: %r" % losses)
    return losses, best


@training.story
def is_kept(s):
    """the checkpoint with the lowest validation loss outlives the newer ones, and `best` names it"""
    losses, best = whole_run(s)
    c = config(s, "kept.json", "kept", keep_best=True, keep_last=1)
    program = s.run(c, world=1)
    tap.check_equal(validations(c), losses, "validations of a run that keeps the best")
    program.expect(r"done: step %d, loss .*; the lowest validation loss was %.4f at step %d, saved in .*/kept/best$"
                   % (STEPS, losses[best], best))
    tap.check_equal(s.checkpoints(s.path("kept")), ["step-%08d" % best, "step-%08d" % STEPS], "checkpoints")
    tap.check_equal(named_best(s, "kept"), best, "what `best` names")
    told = state_of(s, "kept", "step-%08d" % STEPS)["validations"]
    tap.check_equal((told["last_step"], told["best_step"], round(told["best_loss"], 6)),
                    (STEPS, best, round(losses[best], 6)), "validations in state.json")
    spoken = s.start_words([s.tools.train, "generate", s.path("kept", "best"), "--prompt", "the", "--max-new-tokens", "4"])
    tap.check_equal(spoken.end(), 0, "exit status of generate; it said\n%s\n" % "\n".join(spoken.lines))
    exported = s.start_words([s.tools.train, "export", s.path("kept", "best"), "--to", "hf", "-o", s.path("hf")])
    tap.check_equal(exported.end(), 0, "exit status of export; it said\n%s\n" % "\n".join(exported.lines))
    once_more = s.run(config(s, "next.json", "next", steps=1), "--init-from", s.path("kept", "best"), world=1)
    tap.check_equal([x for x in once_more.lines if "best" in x and "saved" in x], [], "of a run that keeps none")


@training.story
def ends_early(s):
    """train.early_stop ends the run when validations are no better, in the same step where it is killed and goes on"""
    losses, best = whole_run(s)
    end = early_end(losses, PATIENCE)
    for name, world, how in (("one", 1, {}), ("two", 2, {})):
        c = config(s, name + ".json", name, early_stop=PATIENCE, keep_best=True, **how)
        program = s.run(c, world=world)
        tap.check_equal(max(validations(c)), end, "the last step, world %d" % world)
        program.expect(r"train\.early_stop ends the run at step %d of %d: no better loss in %d validations"
                       % (end, STEPS, PATIENCE))
        tap.check_equal(named_best(s, name), best, "what `best` names")
        tap.check_equal(s.checkpoints(s.path(name))[-1], "step-%08d" % end, "the last checkpoint")
        again = s.run(c, world=world)
        again.expect(r"nothing is left to train: train\.early_stop has ended the run at step %d" % end)
        on = s.run(c, "--set", "train.early_stop=0", "--set", "train.steps=%d" % (end + 2), world=world)
        on.expect(r"done: step %d, " % (end + 2))
    delta = abs(losses[best] - losses[EVERY]) * 2
    c = config(s, "delta.json", "delta", early_stop={"patience": 2, "min_delta": delta})
    s.run(c, world=1)
    tap.check_equal(max(validations(c)), early_end(losses, 2, delta), "the last step, with min_delta")
    tap.check_equal(os.path.lexists(s.path("delta", "best")), False, "a link that nobody asked for")


def kill_one(s, program):
    """One that comes too late proves less, and is no failure: the run may have gone on to its end."""
    worker = s.workers(program).get(1)
    try:
        if worker:
            os.kill(worker, signal.SIGKILL)
    except ProcessLookupError:
        pass


@training.story
def in_parts(s):
    """killed with -9, in other worlds and in parts, a run ends where it ends in one piece, and keeps the same best"""
    losses, best = whole_run(s)
    patience = 2 * PATIENCE
    end = early_end(losses, patience)
    for vault in ("off", "auto"):
        c = config(s, vault + ".json", vault, early_stop=patience, keep_best=True, vault=vault)
        program = s.start(c, world=2, dtrun=("--max-restarts", "3"))
        for step in (best, best + EVERY):
            program.expect(r"^step +%d/\d+ +validation loss" % step)
            kill_one(s, program)
        tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        if any("the best so far, is not in" in line for line in program.lines):
            # It died while it was written, and the vault had the step behind it: that one was judged in its place.
            tap.check_equal(named_best(s, vault) in validations(c), True, "what `best` names")
            continue
        tap.check_equal(max(s.steps(c)), end, "the last step, train.vault " + vault)
        tap.check_equal(named_best(s, vault), best, "what `best` names, train.vault " + vault)
    c = config(s, "worlds.json", "worlds", early_stop=patience, keep_best=True, keep_last=1)
    for world, steps in ((2, EVERY), (1, best), (4, best + EVERY), (1, STEPS)):
        s.run(c, "--set", "train.steps=%d" % steps, "--set", "train_micro_batch_size_per_gpu=1", world=world)
    tap.check_equal(max(s.steps(c)), end, "the last step, in four worlds")
    tap.check_equal(named_best(s, "worlds"), best, "what `best` names, in four worlds")


@training.story
def judged_later(s):
    """a run that asks for the best behind its first steps validates where it stands, and one whose best is gone says so"""
    first = 4 * EVERY
    c = config(s, "later.json", "later", keep_last=0)
    s.run(c, "--set", "train.steps=%d" % first, world=1)
    tap.check_equal(os.path.lexists(s.path("later", "best")), False, "a link that nobody asked for")
    keep = ("--set", "train.keep_best=true")
    program = s.run(c, *keep, "--set", "train.steps=%d" % (first + 1), world=1)
    program.expect(r"^step +%d/\d+  validation loss" % first)
    losses = validations(c)
    tap.check_equal(named_best(s, "later"), min((first, first + 1), key=lambda step: losses[step]), "what `best` names")
    tap.check_equal(losses[first] < losses[first + 1], True, "a best that can be lost")
    os.rename(s.path("later", "step-%08d" % first), s.path("elsewhere"))
    program = s.run(c, *keep, "--set", "train.steps=%d" % (first + 2), world=1)
    program.expect(r"the checkpoint of step %d, the best so far, is not in .*/later; the step at hand is validated" % first)
    losses = validations(c)
    tap.check_equal(named_best(s, "later"), min((first + 1, first + 2), key=lambda step: losses[step]), "what `best` names now")


@training.story
def of_another_file(s):
    """a run that goes on with another data.validation says so, and begins the best anew with the step at hand"""
    c = config(s, "first.json", "first", keep_best=True, keep_last=1)
    s.run(c, "--set", "train.steps=%d" % (2 * EVERY), world=1)
    old = named_best(s, "first")
    said = r"than those that found step %d the best .* the best is sought anew, from step %d on" % (old, 2 * EVERY)
    steps = ("--set", "train.steps=%d" % (2 * EVERY + 1))
    tap.check_equal([x for x in s.run(c, *steps[:1], "train.steps=%d" % (2 * EVERY), world=1).lines if "anew" in x], [],
                    "what is said where nothing is new")
    shorter = s.path("shorter.bin")
    with open(s.path("other"), encoding="utf-8") as f, open(s.path("shorter"), "w", encoding="utf-8") as out:
        out.write(f.read()[:200])
    subprocess.run([s.tools.train, "tokenize", s.path("shorter"), "-o", shorter], check=True, stdout=subprocess.DEVNULL)
    program = s.run(c, *steps, "--set", "data.validation=" + shorter, world=1)
    program.expect(said)
    losses = validations(c)
    best = min((2 * EVERY, 2 * EVERY + 1), key=lambda step: losses[step])
    tap.check_equal(named_best(s, "first"), best, "what `best` names")
    tap.check_equal(state_of(s, "first", "step-%08d" % (2 * EVERY + 1))["validations"]["best_step"], best, "best_step")


@training.story
def says_what_is_wrong(s):
    """what cannot be validated is refused by name, and an empty data.validation switches validation off"""
    for settings, wanted in ((("train.early_stop=-1",), r"train\.early_stop: expected a number of validations"),
                             (("train.early_stop={\"patience\": 2, \"delta\": 1}",), r"train\.early_stop\.delta"),
                             (("train.keep_best=true", "data.validation="), r"train\.keep_best: there is no data\.validation"),
                             (("train.early_stop=2", "train.validate_every=0"), r"train\.early_stop: train\.validate_every and")):
        c = config(s, "wrong.json", "wrong", steps=1)
        words = sum((["--set", x] for x in settings), [])
        s.run(c, *words, world=0, status=2).expect(wanted)
    c = config(s, "off.json", "off", steps=EVERY)
    program = s.run(c, "--set", "data.validation=", world=0)
    tap.check_equal([x for x in program.lines if "validation" in x], [], "what is said of validation")


training.main()
