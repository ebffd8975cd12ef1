# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints that leave the building, and come back: to a folder, and by a command.

import os
import shutil
import signal
import subprocess

import tap
import training


def url(s, name="depot"):
    return "file://" + s.path(name)


def names(s, name="depot"):
    """What is in the depot: {checkpoint: files}."""
    found = {}
    for folder, _, files in os.walk(s.path(name)):
        step = os.path.relpath(folder, s.path(name)).split(os.sep)[0]
        if step != ".":
            found[step] = found.get(step, 0) + len(files)
    return found


def tell(s, *words, status=0):
    """What dtrun-train says to a command, both streams."""
    p = subprocess.run([s.tools.train, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    tap.check_equal(p.returncode, status, "exit status of %s: %s" % (words, p.stdout))
    return p.stdout


def has(text, words):
    tap.check_equal(words in text, True, "%r in %r" % (words, text))


def step_folder(step):
    return "step-%08d" % step


@training.story
def comes_back_without_its_disk(s):
    """checkpoints are in the store, and a run that has lost its disk goes on from there, to the same losses"""
    whole = s.config("whole.json", stage=1, steps=30)
    s.run(whole, world=2)
    c = s.config("c.json", stage=1, steps=30, save_every=10, save_dir=s.path("ckpt"), upload_to=url(s))
    s.run(c, "--set", "train.steps=20", world=2).expect(r"step 20 is uploaded to file://")
    tap.check_equal(names(s)[step_folder(20)] >= 5, True, "files of the last checkpoint: %r" % names(s))
    with open(s.path("depot", "latest"), encoding="utf-8") as f:
        tap.check_equal(f.read(), step_folder(20) + "\n", "latest")
    shutil.rmtree(s.path("ckpt"))
    program = s.run(c, world=2)
    program.expect(r"fetching step 20 from file://")
    program.expect(r"resumed from .*/ckpt/step-00000020: step 20")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")
    tap.check_equal([n for n in os.listdir(s.path("ckpt")) if n.startswith(".tmp")], [], "what is left of the fetch")


@training.story
def keeps_the_last(s):
    """the oldest go from the store as from the disk, and what an upload left that was given up"""
    c = s.config(stage=0, steps=40, save_every=10, save_dir=s.path("ckpt"), upload_to=url(s), upload_keep_last=1)
    os.makedirs(s.path("depot", step_folder(5)))
    with open(s.path("depot", step_folder(5), "model.safetensors"), "w", encoding="utf-8") as f:
        f.write("of an upload that was cut off")
    s.run(c, world=3)
    tap.check_equal(list(names(s)), [step_folder(40)], "checkpoints in the store")
    tap.check_equal(s.checkpoints(s.path("ckpt"))[-1], step_folder(40), "the newest on disk")


@training.story
def newest_is_damaged(s):
    """a checkpoint of the store with a byte that is not as it was written is not gone on from: the one before is"""
    c = s.config(stage=2, steps=40, save_every=10, save_dir=s.path("ckpt"), upload_to=url(s), upload_keep_last=0)
    for steps in (10, 20):
        s.run(c, "--set", "train.steps=%d" % steps, world=2)
    with open(s.path("depot", step_folder(20), "optimizer", "exp_avg.safetensors"), "r+b") as f:
        f.seek(-1, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))
    shutil.rmtree(s.path("ckpt"))
    program = s.run(c, world=2)
    program.expect(r"step 20 is not fetched: .*exp_avg.safetensors")
    program.expect(r"resumed from .*/step-00000010: step 10")
    tell(s, "fetch", url(s) + "/step-00000040", "-o", s.path("got"))


@training.story
def cannot_be_uploaded(s):
    """what cannot be uploaded costs a warning with the rank and the cause, never the run, and the next start uploads it"""
    with open(s.path("depot"), "w", encoding="utf-8") as f:
        f.write("no folder")
    c = s.config(stage=1, steps=20, save_every=10, save_dir=s.path("ckpt"), upload_to=url(s))
    s.run(c, world=2, status=1).expect(r"train.upload_to: .*; so a checkpoint to go on from may be lost to this run; --resume none ")
    program = s.run(c, "--resume", "none", world=2)
    program.expect(r"dtrun-train: step \d+ is not uploaded to file://.*: rank \d: .*depot.*; it is safe in .*/ckpt/step-\d+, and ")
    program.expect(r"done: step 20, .* saved in ")
    program = s.run(c, world=2)
    program.expect(r"whether a newer checkpoint is there is not known, and the run goes on from step 20 of the disk")
    os.remove(s.path("depot"))
    program = s.run(c, world=2)
    program.expect(r"step 20 is uploaded to file://")
    program.expect(r"nothing is left to train: step 20 is done")
    tap.check_equal(list(names(s)), [step_folder(20)], "checkpoints in the store")


@training.story
def by_a_command(s):
    """a command gets each file with its key, state.json last, and one that fails is told with its last words"""
    log = s.path("log")
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"),
                 upload_cmd='test -f "$DTRUN_UPLOAD_FILE" && echo "$DTRUN_UPLOAD_KEY" >>"%s"' % log)
    s.run(c, world=2).expect(r"step 4 is uploaded to test -f")
    with open(log, encoding="utf-8") as f:
        keys = f.read().split()
    prefix = step_folder(4) + "/"
    tap.check_equal(keys[-1], prefix + "state.json", "the last key of %r" % keys)
    tap.check_equal(sorted(keys), sorted(prefix + n for n in (
        "model.safetensors", "config.json", "optimizer/exp_avg.safetensors", "optimizer/exp_avg_sq.safetensors", "state.json")), "keys")
    program = s.run(c, "--resume", "none", "--set", "train.upload_cmd=echo no bucket >&2; exit 7", world=2)
    program.expect(r"step 4 is not uploaded to .*: rank \d: step-00000004/.*ended with exit status 7: no bucket; it is safe in ")


@training.story
def does_not_end(s):
    """an upload that does not end holds the end of the run up for its time and no longer"""
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"), upload_cmd="exec sleep 1000", upload_timeout="500ms")
    program = s.run(c, world=2)
    program.expect(r"waiting until step 4 is uploaded to exec sleep 1000, 500 ms at most")
    program.expect(r"step 4 is not uploaded to .*: rank \d: the time to wait for it at the end of a run is over; it is safe in ")


@training.story
def told_to_end(s):
    """SIGTERM while an upload is waited for at the end: the wait is cut short, and the run has ended well"""
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"),
                 upload_cmd='touch "%s"; exec sleep 1000' % s.path("begun"))
    program = s.start(c, world=0)
    training.wait_for(lambda: os.path.exists(s.path("begun")), "an upload")
    program.expect(r"waiting until step 4 is uploaded to ")
    program.kill(signal.SIGTERM)
    program.expect(r"step 4 is not uploaded to .* it is safe in ")
    tap.check_equal(program.end(), 0, "exit status")


@training.story
def killed_while_uploading(s):
    """kill -9 of a rank in the middle of an upload: its command goes too, and the next world uploads what the last one began"""
    c = s.config(stage=1, steps=training.LONG, save_every=5, save_dir=s.path("ckpt"),
                 upload_cmd='[ -e "$0go" ] || { echo $$ >"$0pid.new"; mv "$0pid.new" "$0pid.$$"; exec sleep 1000; }; '
                            'echo "$DTRUN_UPLOAD_KEY" >>"$0log"'.replace("$0", s.path("")))
    program = s.start(c, world=2, dtrun=["--max-restarts", "1"])
    begun = lambda: [n for n in os.listdir(s.dir) if n.startswith("pid.") and n != "pid.new"]  # noqa: E731
    training.wait_for(begun, "an upload")
    with open(s.path("go"), "w", encoding="utf-8"):
        pass
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(r"restart 1 of 1")
    program.expect(r"step %d is uploaded to " % training.LONG)
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal([n for n in begun() if os.path.exists("/proc/" + n[4:])], [], "commands of the first world")
    with open(s.path("log"), encoding="utf-8") as f:
        keys = f.read().split()
    last = [k for k in keys if k.startswith(step_folder(training.LONG) + "/")]
    tap.check_equal((len(set(last)), last[-1]), (5, step_folder(training.LONG) + "/state.json"), "files of the last checkpoint")


@training.story
def of_another_run(s):
    """a run that begins anew does not upload between the checkpoints of another one"""
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"), upload_to=url(s))
    s.run(c, world=2)
    program = s.run(c, "--resume", "none", world=2, status=1)
    program.expect(r"train.upload_to: file://.* holds checkpoints of another run, up to step 4")
    tap.check_equal(s.checkpoints(s.path("ckpt")), [step_folder(4)], "checkpoints on disk")


@training.story
def by_hand(s):
    """ls, fetch and rm: what is there, one of it, and no more of it"""
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"), upload_to=url(s), upload_keep_last=0)
    for steps in (2, 4):
        s.run(c, "--set", "train.steps=%d" % steps, world=1)
    os.makedirs(s.path("depot", step_folder(3)))
    with open(s.path("depot", step_folder(3), "config.json"), "w", encoding="utf-8") as f:
        f.write("{}")
    lines = tell(s, "ls", url(s)).splitlines()
    tap.check_equal([line.split()[0] for line in lines], [step_folder(n) for n in (2, 3, 4)], "checkpoints")
    has(lines[1], "1 file, not whole")
    has(lines[2], ", latest")
    has(tell(s, "ls", url(s) + "/step-00000004"), "optimizer/exp_avg.safetensors")
    with open(s.path("depot", step_folder(3), "\u009b2J"), "w", encoding="utf-8"):
        pass
    has(tell(s, "ls", url(s) + "/" + step_folder(3)), "  \\u009b2J\n")
    os.makedirs(s.path("depot", step_folder(4), "others"))
    for name in ("tokenizer.json", "others/file"):
        shutil.copy(c, s.path("depot", step_folder(4), name))
    has(tell(s, "fetch", url(s), "-o", s.path("got")), "step-00000004: every byte is as it was written")
    tap.check_equal(sorted(os.listdir(s.path("got", step_folder(4)))), ["config.json", "model.safetensors", "optimizer", "state.json",
                                                                       "tokenizer.json"], "what was fetched")
    tell(s, "fetch", url(s) + "/" + step_folder(2), "-o", s.path("got"))
    tap.check_equal(s.checkpoints(s.path("got")), [step_folder(2), step_folder(4)], "what was fetched")
    tell(s, "--verify", s.path("got", step_folder(2)))
    has(tell(s, "fetch", url(s) + "/" + step_folder(3), "-o", s.path("got"), status=1), "is not whole")
    with open(s.path("depot", step_folder(2), "model.safetensors"), "ab") as f:
        f.write(b"more")
    has(tell(s, "fetch", url(s) + "/" + step_folder(2), "-o", s.path("more"), status=1), "bytes and should have")
    tap.check_equal(os.listdir(s.path("more")), [], "what is left of a fetch that failed")
    has(tell(s, "fetch", url(s) + "/" + step_folder(9), "-o", s.path("got"), status=1), "there is no step-00000009")
    has(tell(s, "rm", url(s), status=2), "which checkpoint?")
    tell(s, "rm", url(s) + "/" + step_folder(3), url(s) + "/" + step_folder(4))
    tap.check_equal(list(names(s)), [step_folder(2)], "what is left")
    has(tell(s, "rm", url(s) + "/" + step_folder(4), status=1), "there is no step-00000004")
    has(tell(s, "ls", "file:///" + "x" * 20 + "/none"), "")


training.main()
