# SPDX-License-Identifier: Apache-2.0
#
# What stories of training share: a small model, a text, runs of dtrun-train under dtrun, and what they left behind.

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import netns
import servers
import tap

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STORIES = []
# Steps of a run of which most are still to come when something happens at one of the first.
LONG = int(os.environ.get("DT_LONG_RUN", "250"))

GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 3, "n_positions": 32, "vocab_size": 320}
LLAMA = {"model_type": "llama", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "vocab_size": 320}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--dtrun", required=True)
    p.add_argument("--train", required=True)
    p.add_argument("--rendezvous")
    p.add_argument("--ctl")
    p.add_argument("only", nargs="*")
    return p.parse_args()


class Story:
    """A folder of its own, and programs that end with it."""

    def __init__(self, tools):
        self.tools = tools
        self.dir = tempfile.mkdtemp(prefix="dtrun-train-")
        self.programs = []
        self.data = self.path("text.bin")
        texts = [os.path.join(TOP, "README.md")] + [
            os.path.join(TOP, "docs", name) for name in ("architecture.md", "protocol.md")]
        try:
            subprocess.run([tools.train, "tokenize", *texts, "-o", self.data], check=True, stdout=subprocess.DEVNULL)
        except BaseException:
            self.finish()
            raise

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def config(self, name="config.json", model=None, stage=0, batch=12, accumulation=None, steps=8, **train):
        """Writes a configuration; blocks of TRAIN that are dicts join the whole."""
        c = {
            "train_batch_size": batch,
            "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}},
            "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": steps}},
            "zero_optimization": {"stage": stage},
            "model": {"config": model or GPT2},
            "data": {"train": self.data},
            "train": {"steps": steps, "seed": 7, "log_every": 1, "threads": 1, "metrics": self.path(name + ".jsonl")},
        }
        if accumulation:
            c["gradient_accumulation_steps"] = accumulation
        for key, value in train.items():
            if isinstance(value, dict):
                c[key] = {**c.get(key, {}), **value}
            else:
                c["train"][key] = value
        with open(self.path(name), "w", encoding="utf-8") as f:
            json.dump(c, f)
        return self.path(name)

    def start(self, config, *options, world=1, dtrun=(), env=None):
        """dtrun-train under dtrun, or alone where WORLD is 0."""
        words = [self.tools.train, "--config", config, *options]
        if world:
            words = [self.tools.dtrun, "--nproc-per-node", str(world), *dtrun, "--no-python", *words]
        return self.start_words(words, env)

    def start_words(self, words, env=None):
        popen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 preexec_fn=tap.die_with_parent, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
        program = netns.Program("dtrun-train", popen)
        self.programs.append(program)
        return program

    def run(self, config, *options, status=0, **how):
        program = self.start(config, *options, **how)
        ended = program.end()
        tap.check_equal(ended, status, "exit status; it said\n%s\n" % "\n".join(program.lines))
        return program

    def run_killed(self, config, world, victim, step=6, **how):
        """A run whose rank VICTIM is killed with -9 behind a step, once: the next step told is the one behind the last, and it ends well."""
        program = self.start(config, world=world, dtrun=("--max-restarts", "1"), **how)
        program.expect(r"^step +%d/" % step)
        os.kill(self.workers(program)[victim], signal.SIGKILL)
        back = int(program.expect(r"^back at step (\d+)").group(1))
        program.expect(r"^step +%d/" % (back + 1))
        tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))

    def steps(self, config):
        """The metrics of each step, by its number; the last word on a step counts."""
        with open(config + ".jsonl", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        numbers = [r["step"] for r in rows if "loss" in r]
        tap.check_equal(numbers, sorted(set(numbers)), "steps in the file of metrics")
        return {r["step"]: r for r in rows if "loss" in r}

    def losses(self, config):
        return [row["loss"] for _, row in sorted(self.steps(config).items())]

    def norms(self, config):
        return [row["grad_norm"] for _, row in sorted(self.steps(config).items())]

    def checkpoints(self, folder):
        return sorted(name for name in os.listdir(folder) if name.startswith("step-"))

    def workers(self, program):
        """{rank: pid} of the dtrun-train processes below PROGRAM, but not of those that they fork and that become a command."""
        parents, found = {}, {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/stat" % name, encoding="utf-8") as f:
                        parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
                except OSError:
                    pass
        for pid in parents:
            above = pid
            while above in parents and above != program.popen.pid:
                above = parents[above]
            if above != program.popen.pid or pid == above:
                continue
            try:
                if os.path.basename(os.readlink("/proc/%d/exe" % pid)) != os.path.basename(self.tools.train):
                    continue
                with open("/proc/%d/environ" % pid, "rb") as f:
                    environ = dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)
                found[pid] = int(environ[b"RANK"])
            except (OSError, KeyError):
                pass
        return {rank: pid for pid, rank in found.items() if parents[pid] not in found}

    def page(self, pid, form, at):
        """What is at byte AT of that worker's progress page (rendezvous/protocol/page.h)."""
        with open("/proc/%d/environ" % pid, "rb") as f:
            fd = re.search(rb"(?:^|\0)DTRUN_PROGRESS_FD=(\d+)", f.read()).group(1).decode()
        with open("/proc/%d/fd/%s" % (pid, fd), "rb") as f:
            return struct.unpack_from(form, f.read(120), at)[0]

    def told_step(self, pid):
        """The step that it told last, -1: it told none yet."""
        return self.page(pid, "=q", 72)

    def told_tokens(self, pid):
        """How many tokens of a second are its share."""
        return self.page(pid, "=d", 112)

    def finish(self):
        for program in self.programs:
            program.kill(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)


def is_served(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Nodes:
    """Agents of one elastic job, all on this host, with two ranks each; the first serves the rendezvous."""

    def __init__(self, s, config, nnodes, count, *options):
        self.story, self.config, self.port = s, config, servers.free_port()
        self.words = ["--nnodes", nnodes, "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id", "stays", "--rdzv-endpoint",
                      "127.0.0.1:%d" % self.port, "--rdzv-conf", "keep_alive_interval=1,last_call_timeout=60,join_timeout=60",
                      "--local-addr", "127.0.0.1", *options]
        self.agents = [self.start(0)]
        wait_for(lambda: is_served(self.port), "the rendezvous")
        self.agents += [self.start(i) for i in range(1, count)]
        self.speaker().expect(r"%d ranks on %d hosts" % (2 * count, count))

    def start(self, number):
        return self.story.start_words([self.story.tools.dtrun, *self.words, "--node-name", "node%d" % number, "--no-python",
                                       self.story.tools.train, "--config", self.config])

    def speaker(self):
        """The agent whose worker is rank 0; so that ranks follow from the order in which they came."""
        wait_for(lambda: any(a.says(r"^batch ") for a in self.agents), "rank 0")
        return [a for a in self.agents if a.says(r"^batch ")][0]

    def pids(self, agent):
        return sorted(self.story.workers(agent).values())

    def all_pids(self):
        return {number: self.pids(agent) for number, agent in enumerate(self.agents)}


def run_words(s, *words, status=0):
    """dtrun-train with WORDS, and what it says."""
    program = s.start_words([s.tools.train, *words])
    tap.check_equal(program.end(), status, "exit status; it said\n%s\n" % "\n".join(program.lines))
    return "\n".join(program.lines)


def base(s, model=LLAMA):
    """A folder with a model that knows a little."""
    folder = s.path("base-" + model["model_type"])
    if not os.path.isdir(folder):
        s.run(s.config("base.json", model=model, steps=2, save_dir=folder), world=0)
    return folder


def beside(s, name, model, lora, **how):
    """A configuration of adapters beside it."""
    c = s.config(name, lora=dict(lora), **how)
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    whole["model"] = {"config": model, "weights": base(s, model)}
    with open(c, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    return c


def tensors(path):
    """{name: shape} of a file of safetensors."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {name: t["shape"] for name, t in head.items() if name != "__metadata__"}


def conversations(s, count=60):
    """Sums, in one to three exchanges of up to 65 tokens together: what a configuration says of their file of tokens."""
    chance = random.Random(3)
    with open(s.path("sums.jsonl"), "w", encoding="utf-8") as f:
        for _ in range(count):
            messages = []
            for _ in range(chance.randint(1, 3)):
                a, b = chance.randint(1, 30), chance.randint(1, 30)
                messages += [{"role": "user", "content": "%d+%d" % (a, b)}, {"role": "assistant", "content": str(a + b)}]
            f.write(json.dumps({"messages": messages}) + "\n")
    program = s.start_words([s.tools.train, "tokenize", "--template", "plain", "--max-tokens", "65",
                             s.path("sums.jsonl"), "-o", s.path("sums.bin")])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    program.expect(r"sums\.bin: \d+ conversations with \d+ tokens, of which \d+ are trained on; vocabulary 320")
    return {"data": {"train": s.path("sums.bin"), "validation": s.path("sums.bin"), "shuffle": True}}


def pairs(s, count=48):
    """Sums of which one is right, as TRL writes them: what a configuration says of their files of tokens."""
    chance = random.Random(3)
    with open(s.path("pairs.jsonl"), "w", encoding="utf-8") as f:
        for _ in range(count):
            a, b = chance.randint(1, 30), chance.randint(1, 30)
            wrong = str(a + b + chance.randint(1, 9))
            f.write(json.dumps({"prompt": "%d+%d" % (a, b), "chosen": "it is %d" % (a + b), "rejected": "no: " + wrong}) + "\n")
    program = s.start_words([s.tools.train, "tokenize", "--template", "plain", "--preferences", s.path("pairs.jsonl"),
                             "-o", s.path("pairs.bin"), "--validation", s.path("held.bin"), "--split", "0.25"])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    program.expect(r"pairs\.bin: %d pairs with \d+ tokens, of which \d+ are trained on; vocabulary 320" % (count * 3 // 4))
    program.expect(r"held\.bin: %d pairs with \d+ tokens, for validation" % (count // 4))
    return {"train": s.path("pairs.bin"), "validation": s.path("held.bin"), "sequence_length": 80}


def story(tell):
    STORIES.append(tell)
    return tell


def wait_for(happened, what, patience=netns.PATIENCE):
    """What happens in files and processes, and nobody tells."""
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError("%s: not in %d s" % (what, patience))
        time.sleep(0.0005)


def await_save(folder):
    """Until a save is under way there."""
    wait_for(lambda: os.path.isdir(folder) and any(n.startswith(".tmp-step-") for n in os.listdir(folder)), "a save in " + folder)


def state_of(pid):
    """As in ps: "S" sleeps, "Z" is over and waits for a parent that asks; or "gone"."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def blocked(pid):
    """Whether the process sleeps, at many looks in a row."""
    for _ in range(50):
        if state_of(pid) != "S":
            return False
        time.sleep(0.002)
    return True


def close(got, wanted, relative, what):
    tap.check_equal(len(got), len(wanted), "number of losses: " + what)
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, wanted))
    if worst > relative:
        raise AssertionError("%s: differs by %.3g, more than %.3g\n%r\n%r" % (what, worst, relative, got, wanted))


def main():
    tools = arguments()
    tap.start(limit=5 * netns.PATIENCE)
    for tell in STORIES:
        if tools.only and tell.__name__ not in tools.only:
            continue

        def run(tell=tell):
            s = Story(tools)
            try:
                tell(s)
            finally:
                s.finish()
        tap.case(tell.__doc__, run)
    tap.done()
