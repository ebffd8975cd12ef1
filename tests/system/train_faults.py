# SPDX-License-Identifier: Apache-2.0
#
# What goes wrong while a model trains: full disks, processes that are killed or stand still, damaged files, and people who
# end a run in all the ways there are. Nothing that was saved is lost, and what happened is said in one sentence.

import json
import os
import random
import signal
import subprocess
import time

import tap
import training


class SmallDisk:
    """A folder that holds SIZE bytes and no more, of which a ballast takes all but LEFT."""

    def __init__(self, s, size, left):
        self.path = s.path("disk")
        os.mkdir(self.path)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "dt-test", self.path], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            raise tap.Skip("no tmpfs can be mounted here")
        self.ballast = os.path.join(self.path, "ballast")
        with open(self.ballast, "wb") as f:
            f.write(bytes(size - left))

    def __enter__(self):
        return self

    def free(self):
        os.unlink(self.ballast)

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)


@training.story
def full_disk(s):
    """a checkpoint that finds no room costs itself and a sentence; the next one that finds some is written"""
    with SmallDisk(s, 4 << 20, 600 << 10) as disk:
        c = s.config(steps=100000, save_every=20, stage=2, save_dir=os.path.join(disk.path, "ckpt"), keep_last=1)
        program = s.start(c, world=2)
        step = program.expect(r"^dtrun-train: step (\d+) is not saved: rank [01]: .*No space left on device; training goes on").group(1)
        disk.free()
        program.expect(r"step %d/" % (int(step) + 60))
        program.kill(signal.SIGTERM)
        program.expect(r"told to end: step \d+, loss [\d.]+, saved in ")
        program.end()
        tap.check_equal(len([x for x in program.lines if "step %s is not saved" % step in x]), 1, "sentences of one step")
        tap.check_equal(len(s.checkpoints(os.path.join(disk.path, "ckpt"))), 1, "checkpoints")
        s.run(c, "--set", "train.steps=1", world=1)


@training.story
def full_disk_of_metrics(s):
    """metrics that find no room are said once, and the run is none the worse"""
    with SmallDisk(s, 64 << 10, 8 << 10) as disk:
        whole = s.config("whole.json", steps=60)
        s.run(whole, world=2)
        c = s.config(steps=60, metrics=os.path.join(disk.path, "metrics.jsonl"), save_dir=s.path("ckpt"),
                     csv_monitor={"enabled": True, "output_path": os.path.join(disk.path, "csv"), "job_name": "job"})
        program = s.run(c, world=2)
        for name in ("metrics.jsonl", "csv"):
            told = [x for x in program.lines if name in x and "No space left on device; training goes on without" in x]
            tap.check_equal(len(told), 1, "sentences on %s in %r" % (name, program.lines[:12]))
        last = [x for x in program.lines if x.startswith("done: ")][0].split(", saved")[0]
        tap.check_equal(last, "done: step 60, loss %.4f" % s.losses(whole)[-1], "the last line")


# A rate far too high.
RUNAWAY = {"optimizer": {"type": "AdamW", "params": {"lr": 1e5, "weight_decay": 0.1}}, "scheduler": {"type": "WarmupLR", "params": {
    "warmup_min_lr": 1e5, "warmup_max_lr": 1e5, "warmup_num_steps": 2}}}


@training.story
def diverged(s):
    """a run that diverges ends by its own sentence, and the last checkpoint is of a step before"""
    for name, precision in (("fp32", {}), ("bf16", {"bf16": {"enabled": True}}), ("fixed", {"fp16": {"enabled": True, "loss_scale": 1}})):
        for world in (0, 2):
            folder = s.path("%s%d" % (name, world))
            c = s.config(name + ".json", steps=60, save_every=1, save_dir=folder, max_skipped_steps=4, **RUNAWAY, **precision)
            program = s.run(c, world=world, status=1)
            last = program.expect(r"step (\d+): the run has diverged: gradients were not finite in the last 4 steps "
                                  r"\(train\.max_skipped_steps is 4\); try a smaller .*; the last checkpoint holds step (\d+)")
            rows = s.steps(c)
            tap.check_equal([rows[n]["skipped"] for n in sorted(rows)[-4:]], [True] * 4, "the last four steps")
            tap.check_equal(rows[int(last.group(2))]["skipped"], False, "the step that was saved was skipped")
            tap.check_equal(s.checkpoints(folder)[-1], "step-%08d" % int(last.group(2)), "the newest checkpoint")
            os.unlink(c + ".jsonl")


@training.story
def diverged_and_restarted(s):
    """a run that has diverged has diverged for its later worlds, too, which find the last step in the vault"""
    c = s.config(steps=60, max_skipped_steps=4, vault_every=1, **RUNAWAY)
    program = s.run(c, world=2, status=1, dtrun=("--max-restarts", "2"))
    ends = [x.partition(": the run has diverged: ")[0].rpartition(" ")[2] for x in program.lines
            if x.startswith("dtrun-train: ") and ": the run has diverged: gradients were not finite in the last 4 steps " in x]
    tap.check_equal(ends, [str(max(s.steps(c)))] * 3, "the step of each end, in\n" + "\n".join(program.lines))


@training.story
def diverged_at_the_end(s):
    """steps that are skipped at the very end are no success, however many may be skipped"""
    c = s.config(steps=3, save_every=1, save_dir=s.path("ckpt"), max_skipped_steps=0, fp16={"enabled": True, "loss_scale": 1e38})
    s.run(c, world=0, status=1).expect(r"step 3: the run has diverged: gradients were not finite in the last 3 steps .*a fixed fp16\.loss_scale may be too large")
    tap.check_equal(s.checkpoints(s.path("ckpt")), [], "checkpoints")


@training.story
def waiting_is_no_computing(s):
    """a rank that waits for another one has waited, and the time it computed stays what it is"""
    for stage in (0, 3):
        c = s.config("stage%d.json" % stage, steps=100000, stage=stage)
        program = s.start(c, world=2)
        program.expect(r"step 5/")
        late, waits = s.workers(program)[1], s.workers(program)[0]
        os.kill(late, signal.SIGSTOP)
        training.wait_for(lambda: training.blocked(waits), "rank 0 to wait for rank 1")
        os.kill(late, signal.SIGCONT)
        step = max(s.steps(c))
        program.expect(r"step %d/" % (step + 5))
        program.kill(signal.SIGTERM)
        program.end()
        rows = s.steps(c)
        waited = max(rows.values(), key=lambda row: row["communication_ms"])
        tap.check_equal(waited["communication_ms"] > 100, True, "waiting of the longest step: %r" % waited)
        tap.check_equal(min(row["backward_ms"] for row in rows.values()) > 0, True, "every step went backward: %r" % waited)
        parts = sum(waited[k] for k in ("forward_ms", "backward_ms", "communication_ms", "optimizer_ms", "data_ms"))
        tap.check_equal(parts <= waited["ms"], True, "the parts are no more than the whole: %r" % waited)


@training.story
def killed_at_random(s):
    """without a vault, ranks killed with -9 at many random moments, in saves too, cost time and not a bit of the losses"""
    steps = training.LONG * 8 // 5
    whole = s.config("whole.json", stage=2, steps=steps)
    s.run(whole, world=2)
    chance = random.Random(20)
    c = s.config("killed.json", stage=2, steps=steps, save_every=2, save_dir=s.path("ckpt"), keep_last=3, vault="off")
    program = s.start(c, world=2, dtrun=("--max-restarts", "100", "--monitor-interval", "0.05"))

    def saves():
        return os.path.isdir(s.path("ckpt")) and any(n.startswith(".tmp-step-") for n in os.listdir(s.path("ckpt")))

    kills = 0
    while kills < 40 and program.popen.poll() is None:
        if chance.random() < 0.5:
            training.wait_for(lambda: saves() or program.popen.poll() is not None, "a save")
            time.sleep(chance.uniform(0, 0.01))
        else:
            time.sleep(chance.uniform(0, 0.3))
        there = sorted(s.workers(program).values())
        try:
            if there:
                os.kill(chance.choice(there), signal.SIGKILL)
                kills += 1
        except ProcessLookupError:
            pass  # it ended between the two
    tap.check_equal(program.end(), 0, "exit status")
    tap.comment("%d kills, %d restarts that resumed" % (kills, sum("resumed from" in x for x in program.lines)))
    tap.check_equal(s.losses(c), s.losses(whole), "losses")
    tap.check_equal([n for n in os.listdir(s.path("ckpt")) if n.startswith(".tmp")], [], "what is left of saves")


@training.story
def dtrun_killed(s):
    """dtrun itself killed with -9 takes its workers with it; started anew it goes on"""
    whole = s.config("whole.json", steps=training.LONG)
    s.run(whole, world=2)
    c = s.config("killed.json", steps=training.LONG, save_every=3, save_dir=s.path("ckpt"))
    program = s.start(c, world=2)
    program.expect(r"step 10/")
    program.kill(signal.SIGKILL)
    program.end()
    again = s.run(c, world=2)
    again.expect(r"resumed from .*: step \d+")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


def verify(s, checkpoint, status):
    program = s.start_words([s.tools.train, "--verify", checkpoint])
    tap.check_equal(program.end(), status, "exit status of --verify; it said\n%s\n" % "\n".join(program.lines))
    return program


@training.story
def flipped_byte(s):
    """one byte that changed on disk: the file is named, the checkpoint before is taken, and the losses come again"""
    whole = s.config("whole.json", steps=12, stage=1)
    s.run(whole, world=2)
    for number, (name, at) in enumerate((("model.safetensors", -100), ("optimizer/exp_avg.safetensors", 4), ("optimizer/exp_avg_sq.safetensors", 70000),
                                         ("config.json", 30), ("state.json", 30))):
        c = s.config("c%d.json" % number, steps=12, stage=1, save_every=4, save_dir=s.path("ckpt%d" % number))
        s.run(c, "--set", "train.steps=8", world=2)
        damaged = s.path("ckpt%d" % number, "step-00000008", name)
        with open(damaged, "r+b") as f:
            f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1]))
        verify(s, s.path("ckpt%d" % number, "step-00000004"), 0).expect(r".*step-00000004: every byte is as it was written")
        verify(s, s.path("ckpt%d" % number), 1).expect(r"dtrun-train: --verify: .*step-00000008/%s.*" % name)
        verify(s, s.path("ckpt%d" % number, "step-00000008"), 1).expect(r"dtrun-train: --verify: .*step-00000008/%s.*" % name)
        program = s.run(c, world=2)
        program.expect(r"step-00000008/%s.*" % name)
        tap.check_equal(s.losses(c), s.losses(whole), "losses")
        tap.check_equal(program.says(r"resumed from .*step-00000004: step 4"), True,
                        "resumed from the one before, with a damaged " + name)


@training.story
def none_whole(s):
    """checkpoints of which none is whole are not trained over"""
    c = s.config(steps=4, save_every=2, save_dir=s.path("ckpt"))
    s.run(c, world=1)
    for step in s.checkpoints(s.path("ckpt")):
        os.truncate(s.path("ckpt", step, "optimizer", "exp_avg.safetensors"), 1000)
    program = s.run(c, "--set", "train.steps=6", world=2, status=1)
    program.expect(r"dtrun-train: rank [01]: train\.save_dir: no checkpoint in .* is whole \(.*optimizer/exp_avg.safetensors.*\)")


@training.story
def scaler_goes_on(s):
    """fp16: the scale of the loss goes on where it was, to the same bits"""
    block = {"fp16": {"enabled": True, "initial_scale_power": 10, "loss_scale_window": 4}}
    whole = s.config("whole.json", steps=24, **block)
    s.run(whole, world=2)
    c = s.config("c.json", steps=24, save_dir=s.path("ckpt"), **block)
    s.run(c, "--set", "train.steps=10", world=2)
    s.run(c, world=2)
    for key in ("loss", "loss_scale", "lr"):
        tap.check_equal([r[key] for _, r in sorted(s.steps(c).items())],
                        [r[key] for _, r in sorted(s.steps(whole).items())], key)
    tap.check_equal(s.steps(whole)[24]["loss_scale"] > s.steps(whole)[10]["loss_scale"], True, "the scale rises")


@training.story
def stopped_worker(s):
    """a worker that is stopped is named when no more steps come, and it is told that the run goes on"""
    c = s.config(steps=100000)
    program = s.start(c, world=2, dtrun=("--hang-after", "2", "--log-dir", s.path("logs")))
    program.expect(r"step 5/")
    workers = s.workers(program)
    os.kill(workers[1], signal.SIGSTOP)
    program.expect(r"warn: the job has stood still for \d+ s: rank 1 is stopped")
    path = program.expect(r"what each worker does is in (\S+/verdict.json) ").group(1)
    with open(path, encoding="utf-8") as f:
        tap.check_equal(json.load(f)["class"], "stopped", "class")
    os.kill(workers[1], signal.SIGCONT)
    program.expect(r"the job moves again after \d+ s")
    program.kill(signal.SIGTERM)
    program.expect(r"told to end")
    program.end()


@training.story
def two_in_one_folder(s):
    """a second run that saves into the folder of a first one is told whose it is; the first is none the worse"""
    first, second = [s.config("c%d.json" % i, steps=100000, save_every=2, save_dir=s.path("ckpt"), keep_last=2) for i in (0, 1)]
    program = s.start(first, world=2, dtrun=("--rdzv-id", "mine"))
    program.expect(r"step 5/")
    refused = s.run(second, world=2, status=1, dtrun=("--rdzv-id", "yours"))
    refused.expect(r"dtrun-train: rank 0: train\.save_dir: another run mine saves in .*/ckpt and is still there; give each run a folder of its own")
    program.expect(r"step \d+/")
    program.kill(signal.SIGTERM)
    step = program.expect(r"told to end: step (\d+), loss [\d.]+, saved in ").group(1)
    program.end()
    s.start(second, world=2).expect(r"resumed from .*: step " + step)


@training.story
def other_model(s):
    """a checkpoint of another model: what differs is named, with both numbers"""
    s.run(s.config(steps=4, save_every=2, save_dir=s.path("ckpt")), world=2)
    for change, says in (({"n_layer": 3}, "the checkpoint's model has layers 2, this run's has 3"),
                         ({"vocab_size": 384}, "vocabulary 320, this run's has 384"),
                         ({"n_head": 4}, "heads 3, this run's has 4")):
        c = s.config("other.json", model={**training.GPT2, **change}, steps=8, save_dir=s.path("ckpt"))
        s.run(c, world=2, status=1).expect("dtrun-train: rank [01]: .*step-00000004/config.json: .*" + says)
        s.run(c, world=0, status=2)


@training.story
def other_rotation(s):
    """a checkpoint whose rotary positions turn otherwise, or whose window is another, is of another model"""
    was = {**training.LLAMA, "model_type": "mistral", "sliding_window": 9, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    s.run(s.config(model=was, steps=2, save_dir=s.path("ckpt")))
    for change, says in (({"sliding_window": 8}, "the checkpoint's model has window 9, this run's has 8"),
                         ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "scales rotary positions in another way")):
        c = s.config("other.json", model={**was, **change}, steps=4, save_dir=s.path("ckpt"))
        s.run(c, world=0, status=2).expect("dtrun-train: .*step-00000002/config.json: .*" + says)


training.main()
