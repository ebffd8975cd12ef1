# SPDX-License-Identifier: Apache-2.0
#
# From a file of conversations to training on the answers: what is packed and trained on is the same for any number of ranks,
# and a run that is killed goes on without repeating a sample.

import os
import signal

import tap
import training


# Enough of them that most are still to come when a rank is killed at one of the first steps.
MANY = max(4, training.LONG // 10)
EPOCHS = {"steps": 0, "epochs": MANY, "scheduler": {"params": {"warmup_num_steps": 3, "total_num_steps": "auto"}}}
LLAMA = dict(training.LLAMA, max_position_embeddings=64)
GPT2 = dict(training.GPT2, n_positions=64)


@training.story
def any_world(s):
    """packed conversations have the same losses with one rank and with four, at stages 0, 2 and 3"""
    data = training.conversations(s)
    for model in (GPT2, LLAMA):
        one = s.config("one.json", model=model, stage=0, steps=4, **data)
        s.run(one, world=1).expect(r"\d+ documents packed into them: \d+ % full, \d+ % trained on")
        for stage, world in ((0, 4), (2, 2), (3, 3)):
            c = s.config("c%d.json" % world, model=model, stage=stage, steps=4, **data)
            s.run(c, world=world)
            training.close(s.losses(c), s.losses(one), 1e-5, "%s, stage %d, %d ranks" % (model["model_type"], stage, world))


@training.story
def epochs(s):
    """train.epochs end with the last sample, and a killed run goes on behind its last step"""
    data = training.conversations(s, 90)
    whole = s.config("whole.json", model=GPT2, stage=2, batch=6, **EPOCHS, **data)
    program = s.run(whole, world=2)
    samples = int(program.expect(r"batch 6 = .*; (\d+) samples of 64 tokens").group(1))
    steps = int(program.expect(r"%d epochs, which is (\d+) steps" % MANY).group(1))
    tap.check_equal(steps, -(-MANY * samples // 6), "steps of %d epochs" % MANY)
    tap.check_equal(len(s.losses(whole)), steps, "steps that were made")
    c = s.config("killed.json", model=GPT2, stage=2, batch=6, save_every=2, save_dir=s.path("ckpt"), vault="off", **EPOCHS, **data)
    program = s.start(c, world=2, dtrun=("--max-restarts", "2"))
    program.expect(r"step 9/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(r"resumed from .*: step [1-9]")
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    tap.check_equal(s.losses(c), s.losses(whole), "losses of a run that was killed")
    s.run(c, world=2).expect(r"nothing is left to train: step %d is done, and the last one of train\.epochs is %d" % (steps, steps))


@training.story
def short_epochs(s):
    """a learning rate that is still rising when the epochs are over is told of"""
    scheduler = {"params": {"warmup_num_steps": 1000, "total_num_steps": "auto"}}
    c = s.config(model=GPT2, steps=0, epochs=1, scheduler=scheduler, **training.conversations(s))
    s.run(c, world=2).expect(r"total_num_steps is \d+, as train\.epochs come to, and ends within the 1000 steps of warmup_num_steps")


@training.story
def packing_changes(s):
    """a run that is resumed with another data.packing says so, and one of a text, which has no documents, says nothing"""
    for name, data in (("chats", training.conversations(s)), ("text", {})):
        c = s.config(name + ".json", model=GPT2, steps=2, save_dir=s.path(name), **data)
        s.run(c, world=0)
        told = s.run(c, "--set", "data.packing=false", "--set", "train.steps=3", world=0).lines
        says = [x for x in told if "data.packing is false from here on; it was true, so the samples to come" in x]
        tap.check_equal(len(says), 1 if data else 0, "lines about data.packing, of %s; it said\n%s\n" % (name, "\n".join(told)))
        again = s.run(c, "--set", "data.packing=false", "--set", "train.steps=4", world=0).lines
        tap.check_equal([x for x in again if "data.packing" in x], [], "what is said of the same once more")


@training.story
def other_data(s):
    """ranks that find different files under the name of the data end with a sentence, and none waits for another"""
    data = training.conversations(s)
    other = s.path("other.bin")
    with open(s.path("sums.jsonl"), encoding="utf-8") as f, open(s.path("fewer.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(f.readlines()[1:])
    program = s.start_words([s.tools.train, "tokenize", "--template", "plain", "--max-tokens", "65",
                             s.path("fewer.jsonl"), "-o", other])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    for key in ("train", "validation"):
        s.config("rank0.json", model=GPT2, stage=3, **EPOCHS, **data)
        s.config("rank1.json", model=GPT2, stage=3, **EPOCHS, data={**data["data"], key: other})
        program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--no-python", "sh", "-c",
                                 'exec "$0" --config "$1$RANK.json"', s.tools.train, s.path("rank")])
        program.expect(r"rank 1: data\.%s is another file here than where rank 0 is \(\d+ tokens; there are \d+ there\)" % key)
        tap.check_equal(program.end(), 1, "exit status; it said\n%s\n" % "\n".join(program.lines))


training.main()
