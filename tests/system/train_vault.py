# SPDX-License-Identifier: Apache-2.0
#
# Workers that die while a model trains, and a job that goes on behind the last step it has done: nothing that was told is
# told again, and losses are, bit for bit, those of a run in which nobody died.

import os
import random
import re
import signal
import time

import servers
import tap
import training

# Of the story that kills at random moments, and what they follow from. A thousand take an hour: with DT_PATIENCE=3600.
KILLS = int(os.environ.get("DT_VAULT_KILLS", "24"))
SEED = int(os.environ.get("DT_VAULT_SEED", "16"))
# Enough that a rank that is to be killed at one of the first is still there, however late the killer comes.
STEPS = training.LONG // 4
STEP = re.compile(r"^step +(\d+)/")
BACK = r"^back at step (\d+)[^:]*: (.*)"


def told(program):
    """The steps that were told, in their order. One whose teller was killed before it could note that is told a second time at
    once, and counts once."""
    steps = [int(m.group(1)) for m in map(STEP.match, program.lines) if m]
    return [step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1]]


def validations(program):
    return [x for x in program.lines if re.search(r"^step.*  validation loss ", x)]


def check_unbroken(s, program, config, whole, steps):
    tap.check_equal(told(program), list(range(1, steps + 1)), "steps that were told")
    tap.check_equal(s.losses(config), s.losses(whole), "losses")


@training.story
def one_rank(s):
    """a rank that is killed costs no step, at any stage"""
    for stage in range(4):
        how = {"steps": STEPS, "stage": stage, "vault_every": 1}
        whole, c = s.config("whole%d.json" % stage, **how), s.config("killed%d.json" % stage, **how)
        s.run(whole, world=2)
        program = s.start(c, world=2, dtrun=("--max-restarts", "1"))
        program.expect(r"^step +4/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        tap.check_equal(program.end(), 0, "exit status")
        back, who = program.expect(BACK).groups()
        tap.check_equal(int(back) >= 4, True, "back at step %s" % back)
        tap.check_equal(who, "rank 0 from its own memory, rank 1 from its own vault", "who gave what")
        check_unbroken(s, program, c, whole, STEPS)


@training.story
def asked_for(s):
    """a vault that is asked for and is not there is refused; "auto" and "off" go without"""
    c = s.config(steps=2)
    s.run(c, "--set", "train.vault=local", world=0, status=1).expect(r'train\.vault asks for a vault, but rank 0 was given none: only dtrun')
    for vault, world in (("auto", 0), ("off", 2)):
        program = s.run(c, "--set", "train.vault=" + vault, world=world)
        tap.check_equal([x for x in program.lines if "vault" in x], [], "said of the vault")


# What becomes of the vault of rank 1, slot by slot, before the second attempt; who then has what to go on from.
DAMAGE = {
    "a flipped bit in each slot": ("printf x | dd of=$f bs=1 seek=200000; printf x | dd of=$f bs=1 seek=$((second + 200000))", False),
    "a header of noise": ("head -c 4096 /dev/urandom | dd of=$f; head -c 4096 /dev/urandom | dd of=$f seek=$second oflag=seek_bytes", False),
    "a file cut off": ("truncate -s 150000 $f", False),
    "a file that is empty": ("truncate -s 0 $f", False),
    "one slot of noise": ("head -c 300000 /dev/urandom | dd of=$f", True),
}


def start_damaging(s, name, config, damage):
    """Two ranks; before rank 1 begins for the second time a shell does DAMAGE."""
    script = s.path(name + ".sh")
    with open(script, "w", encoding="utf-8") as f:
        f.write("f=/proc/self/fd/$DTRUN_VAULT_FD\nsecond=%d\n" % (1 << 40))
        f.write('[ "$RANK$TORCHELASTIC_RESTART_COUNT" != 11 ] || { %s; } 2>/dev/null\n' % damage)
        f.write('exec "$@"\n')
    return s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--max-restarts", "1", "--no-python", "/bin/sh", script,
                          s.tools.train, "--config", config])


@training.story
def damaged(s):
    """what is damaged in the vault does not count: the step before, or the checkpoint, is gone on from, and no bit is other"""
    how = {"steps": STEPS, "stage": 2, "vault_every": 1}
    whole = s.config("whole.json", **how)
    s.run(whole, world=2)
    for what, (damage, other_slot) in DAMAGE.items():
        name = what.replace(" ", "_")
        c = s.config(name + ".json", save_every=2, save_dir=s.path(name), **how)
        program = start_damaging(s, name, c, damage.replace("dd ", "dd conv=notrunc "))
        program.expect(r"^step +5/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        tap.check_equal(program.end(), 0, "%s: exit status; it said\n%s" % (what, "\n".join(program.lines)))
        said = {
            "back": any(re.search(BACK, x) for x in program.lines),
            "resumed": any(x.startswith("resumed from ") for x in program.lines),
        }
        if not other_slot:
            tap.check_equal(said, {"back": False, "resumed": True}, "%s: it said\n%s" % (what, "\n".join(program.lines)))
        if "flipped" in what or "cut" in what:
            tap.check_equal(program.says(r"rank 1: a step in the vault of rank 1 is of no use: "), True, "that it is damaged: " + what)
        tap.check_equal(s.losses(c), s.losses(whole), "losses: " + what)


@training.story
def no_checkpoint_whole(s):
    """a step that is whole in the vault needs no checkpoint: where save_dir has none that is whole, that costs a warning"""
    how = {"steps": STEPS, "vault_every": 1}
    whole, c = s.config("whole.json", **how), s.config("killed.json", save_every=2, save_dir=s.path("ckpt"), **how)
    s.run(whole, world=2)
    program = start_damaging(s, "no_checkpoint", c, "truncate -s 100 %s/step-*/optimizer/*" % s.path("ckpt"))
    program.expect(r"^step +5/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    program.expect(r"^dtrun-train: train\.save_dir: no checkpoint in .* is whole .*; the run goes on from the vault")
    program.expect(BACK)
    check_unbroken(s, program, c, whole, STEPS)


@training.story
def back_at_the_end(s):
    """a world that comes back when all steps were told has them on its page, and says that the run is done"""
    hold = s.path("hold")
    with open(hold, "w", encoding="utf-8"):
        pass
    c = s.config(steps=4, vault_every=1, save_dir=s.path("ckpt"), upload_cmd="while [ -e '%s' ]; do sleep 0.1; done" % hold)
    program = s.start(c, world=2, dtrun=("--max-restarts", "2"))
    for _ in range(2):
        program.expect(r"^waiting until step 4 is uploaded")
        other = s.workers(program)[1]  # rank 0 has told it by then, and waits for nobody behind that
        training.wait_for(lambda other=other: s.told_step(other) == 4, "step 4 on the page of rank 1")
        os.kill(other, signal.SIGKILL)
        program.expect(r".*warn: worker 1 \(rank 1\): last step 4, ")
    os.unlink(hold)
    program.expect(r"^done: step 4, ")
    tap.check_equal(program.end(), 0, "exit status")


@training.story
def saved_at_the_end(s):
    """a job that fails for good saves the last step that its workers have kept, and uploads it; the next job goes on from there"""
    how = {"steps": STEPS, "stage": 2, "vault_every": 1}
    whole = s.config("whole.json", **how)
    s.run(whole, world=2)
    c = s.config("killed.json", save_dir=s.path("ckpt"), save_every=9, upload_to="file://" + s.path("depot"), **how)
    program = s.start(c, world=2, dtrun=("--upload", "%s=file://%s" % (s.path("ckpt"), s.path("followed"))))
    program.expect(r"^step +5/")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    step = int(program.expect(r"^dtrun-train: step (\d+) is saved in .*/ckpt/step-\d+$").group(1))
    program.expect(r"^dtrun-train: step %d is uploaded$" % step)
    tap.check_equal(program.end(), 1, "exit status")
    tap.check_equal(step >= max(told(program)), True, "step %d, of %r that were told" % (step, told(program)))
    for folder in "ckpt", "depot", "followed":
        with open(s.path(folder, "latest"), encoding="utf-8") as f:
            tap.check_equal(f.read(), "step-%08d\n" % step, "latest in " + folder)
    s.run(c, world=2).expect(r"^resumed from .*: step %d$" % step)
    # The line of the step that was saved may never have been told.
    wanted = {n: row["loss"] for n, row in s.steps(whole).items()}
    got = {n: row["loss"] for n, row in s.steps(c).items()}
    tap.check_equal(set(wanted) - set(got) <= {step}, True, "steps that were told, %r" % sorted(got))
    tap.check_equal(got, {n: wanted[n] for n in got}, "losses")


@training.story
def saved_anew(s):
    """a job that was told to begin anew uploads the step that is saved at its end, beside its own uploads"""
    def metrics():
        with open(c + ".jsonl", encoding="utf-8") as f:
            return len(f.readlines())

    c = s.config(steps=4 * training.LONG, vault_every=1, save_dir=s.path("ckpt"), save_every=50, upload_to="file://" + s.path("depot"))
    program = s.start(c, "--resume", "none", world=2)
    training.wait_for(lambda: os.path.exists(s.path("depot", "latest")), "an upload")
    before = metrics()
    training.wait_for(lambda: metrics() > before + 2, "steps behind it")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    step = int(program.expect(r"^dtrun-train: step (\d+) is saved in ").group(1))
    program.expect(r"^dtrun-train: step %d is uploaded$" % step)
    tap.check_equal(program.end(), 1, "exit status")


@training.story
def saved_again(s):
    """a job that goes on from a checkpoint of an earlier one of its id, which was in a higher round, saves what its workers have kept"""
    files = {"save_dir": s.path("ckpt"), "vault_every": 1}
    first = s.start(s.config("first.json", steps=STEPS, **files), world=2, dtrun=("--rdzv-id", "again", "--max-restarts", "1"))
    first.expect(r"^step +4/")
    os.kill(s.workers(first)[1], signal.SIGKILL)
    tap.check_equal(first.end(), 0, "exit status")
    second = s.start(s.config("second.json", steps=2 * STEPS, **files), world=2, dtrun=("--rdzv-id", "again"))
    second.expect(r"^step +%d/" % (STEPS + 4))
    os.kill(s.workers(second)[1], signal.SIGKILL)
    step = int(second.expect(r"^dtrun-train: step (\d+) is saved in ").group(1))
    tap.check_equal(step >= max(told(second)), True, "step %d, of %r that were told" % (step, told(second)))
    tap.check_equal(second.end(), 1, "exit status")


@training.story
def saved_already(s):
    """a job that fails behind its checkpoint, or saves nowhere, makes no further one"""
    for name, train in {"nowhere": {}, "saved": {"save_dir": s.path("saved"), "save_every": 1}}.items():
        c = s.config(name + ".json", steps=training.LONG, vault_every=training.LONG, **train)  # only step 1 is kept
        program = s.start(c, world=2)
        program.expect(r"^step +4/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        tap.check_equal(program.end(), 1, "exit status")
        tap.check_equal([x for x in program.lines if "kept it in memory" in x], [], name)


@training.story
def saved_in_vain(s):
    """Ctrl-C ends a rescue that does not end, with what it has started; after SIGTERM it has --shutdown-timeout"""
    for signum in signal.SIGINT, signal.SIGTERM:
        pid_file = s.path("pid of " + signum.name)
        c = s.config(signum.name + ".json", steps=training.LONG, vault_every=1, save_dir=s.path(signum.name),
                     upload_cmd="echo $$ > '%s'; exec sleep 1000" % pid_file)
        program = s.start(c, world=2, dtrun=("--shutdown-timeout", "1"))
        program.expect(r"^step +4/")
        os.kill(s.workers(program)[1], signal.SIGKILL)
        program.expect(r"^dtrun-train: step \d+ is saved in ")
        training.wait_for(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file), "the upload")
        program.kill(signum)
        tap.check_equal(program.end(), 1, "exit status")
        with open(pid_file, encoding="utf-8") as f:
            pid = int(f.read())
        # In a container process 1 may be no init, and ask for no orphan.
        training.wait_for(lambda: training.state_of(pid) in ("gone", "Z"), "the upload to be gone")


class MemoryLimit:
    """A control group whose processes may have so many bytes; WORDS in front of a command put it there."""

    def __init__(self, limit):
        for top, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            self.path = "%s/dt-test-%d" % (top, os.getpid())
            try:
                os.mkdir(self.path)
                with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
                    f.write(str(limit))
                break
            except OSError:
                if os.path.isdir(self.path):
                    os.rmdir(self.path)
        else:
            raise tap.Skip("no control group can be made here")
        self.words = ["/bin/sh", "-c", 'echo $$ >%s/cgroup.procs; exec "$@"' % self.path, "sh"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        training.wait_for(lambda: self.removed(), "nobody to be left in " + self.path)

    def removed(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return False
        return True


@training.story
def no_room(s):
    """where memory is for training and not for a vault too, "auto" goes without and "local" is refused, and nobody is killed"""
    if "DT_LONG_RUN" in os.environ:
        raise tap.Skip("sanitizers take memory of their own")
    model = {**training.GPT2, "n_layer": 1, "n_embd": 384, "vocab_size": 48000}  # some 20 million parameters
    c = s.config(steps=3, model=model, batch=2, stage=2, data={"sequence_length": 8})
    with MemoryLimit(850 << 20) as limit:
        for vault, status in (("auto", 0), ("local", 1)):
            program = s.start_words([*limit.words, s.tools.dtrun, "--nproc-per-node", "2", "--no-python", s.tools.train, "--config", c,
                                     "--set", "train.vault=" + vault])
            tap.check_equal(program.end(), status, vault + ": exit status; it said\n" + "\n".join(program.lines))
            said = [x for x in program.lines if re.search(r"the vault of 2 ranks on a host would take \d+ MiB more", x)]
            tap.check_equal(bool(said), True, vault + ": what is missing, in\n" + "\n".join(program.lines))


@training.story
def rarely(s):
    """one step in three is kept: those behind it are done again, and all losses are the same"""
    how = {"steps": STEPS, "vault_every": 3}
    whole, c = s.config("whole.json", **how), s.config("killed.json", **how)
    s.run(whole, world=2)
    program = s.start(c, world=2, dtrun=("--max-restarts", "1"))
    program.expect(r"^step +6/")
    os.kill(s.workers(program)[0], signal.SIGKILL)
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal(int(program.expect(BACK).group(1)) % 3, 1, "the step kept last, of 1, 4, 7 ...")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")


@training.story
def checkpoint_is_newer(s):
    """of a job without a run id, too, a checkpoint goes before an older step of the vault"""
    how = {"steps": training.LONG, "vault_every": training.LONG}  # only step 1 is kept
    whole = s.config("whole.json", **how)
    s.run(whole, world=2)
    for resume in "auto", "none":
        c = s.config(resume + ".json", save_every=20, save_dir=s.path(resume), **how)
        with servers.daemon(s.tools.rendezvous) as server:
            program = s.start(c, "--resume", resume, world=2, dtrun=(
                "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % server.port, "--max-restarts", "1"))
            training.wait_for(lambda resume=resume: os.path.exists(s.path(resume, "latest")), "a checkpoint")
            os.kill(s.workers(program)[1], signal.SIGKILL)
            step = program.expect(r"^(?:resumed from .*: step|back at step) (\d+)").group(1)
            tap.check_equal(int(step) > 1, True, "step %s, and not that of the vault" % step)
            tap.check_equal(program.end(), 0, "exit status")
        tap.check_equal(s.losses(c), s.losses(whole), "losses")


# A step of it is update and copy, and little else: that is where kills are to fall.
MOSTLY_STATE = {"model": {**training.GPT2, "n_layer": 1, "n_embd": 96, "vocab_size": 4096}, "batch": 2, "data": {"sequence_length": 8}}


def kill(s, program, chance):
    """-9 for one rank or all of them, at once or when the others have come as far as they can without it; how many."""
    there = sorted(s.workers(program).values())
    victims = there if chance.random() < 0.2 else there and [chance.choice(there)]
    try:
        if chance.random() < 0.7:
            for pid in victims:
                os.kill(pid, signal.SIGSTOP)
            for pid in there:
                if pid not in victims:
                    training.wait_for(lambda pid=pid: training.blocked(pid), "the others to wait")
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        pass  # it ended between the two
    return len(victims)


@training.story
def killed_at_random(s):
    """ranks killed with -9 at many random moments, one or all at once, in copies and on the way back too, cost no step"""
    how = {"steps": KILLS * 12, "stage": 2, "vault_every": 1, "validate_every": 7, "validation_batches": 1, **MOSTLY_STATE}
    how["data"] = {**how["data"], "validation": s.data}
    whole = s.config("whole.json", **how)
    unbroken = s.run(whole, world=2)
    c = s.config("killed.json", **how)
    program = s.start(c, world=2, dtrun=("--max-restarts", "100000", "--monitor-interval", "0.05"))
    chance = random.Random(SEED)
    kills = 0
    while kills < KILLS and program.popen.poll() is None:
        if chance.random() < 0.8:
            before = len(told(program))
            training.wait_for(lambda: len(told(program)) > before or program.popen.poll() is not None, "a step")
        time.sleep(chance.uniform(0, 0.02))
        kills += kill(s, program, chance)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines[-40:]))
    tap.comment("%d kills, %d times back" % (kills, sum("back at step" in x for x in program.lines)))
    check_unbroken(s, program, c, whole, how["steps"])
    tap.check_equal(list(dict.fromkeys(validations(program))), validations(unbroken), "validations")


def join(s, server, config, nodes):
    """One more node of one rank."""
    return s.start_words([s.tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % server.port, "--rdzv-id", "vault",
                          "--rdzv-conf", "last_call_timeout=1,join_timeout=60", "--nnodes", nodes, "--no-python", s.tools.train,
                          "--config", config])


@training.story
def others_join(s):
    """nodes that join a job get their shards from those that are there: no step is lost, no sample is skipped or comes twice"""
    steps = 100000
    c = s.config(steps=steps, batch=60, stage=3, vault_every=1)
    with servers.daemon(s.tools.rendezvous) as server:
        nodes = [join(s, server, c, "3:5") for _ in range(3)]
        for world in (4, 5):
            training.wait_for(lambda: any(told(n) for n in nodes), "a step")
            for n in nodes:
                n.forget()
            nodes.append(join(s, server, c, "3:5"))
            teller = first_to_say(nodes, BACK)
            back, who = teller.expect(BACK).groups()
            tap.check_equal(who.startswith("ranks 0 "), True, who)
            teller.expect(r"^step +%d/" % (int(back) + 3))
        for n in nodes:
            n.kill(signal.SIGTERM)
        for n in nodes:
            n.end()
    rows = sorted(s.steps(c).items())
    tap.check_equal([row["samples"] for _, row in rows], [60 * (i + 1) for i in range(len(rows))], "samples")
    tap.check_equal(sorted(step for n in nodes for step in told(n)), list(range(1, len(rows) + 1)), "steps that were told")


def first_to_say(programs, pattern):
    training.wait_for(lambda: any(p.says(pattern) for p in programs), pattern)
    return next(p for p in programs if p.says(pattern))


training.main()
