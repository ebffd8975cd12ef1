# SPDX-License-Identifier: Apache-2.0
#
# hang_incidents.py --dtrun PROGRAM [NAME...]: scripts that train with PyTorch's gloo and have one broken line. The terminal says
# which rank stands where, and of which class the hang is. Jobs that only take their time are left alone.

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import netns
import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

SOON = ("--hang-after", "3")  # what auto takes ten seconds for

HEAD = """
import fcntl, json, os, queue, signal, socket, sys, threading, time
import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


def load_batch(step):
    return torch.ones(4) * step


def train_step(batch):
    dist.all_reduce(batch)


"""
LOOP = """
    dist.init_process_group("gloo")
    for step in range(1000000):
        batch = load_batch(step)
        if step == 3 and RANK == 1:
            {broken}
        train_step(batch)
"""


def in_loop(broken):
    return LOOP.format(broken=broken)


# The body of main(); the culprit stands at the line that ends in "# HERE". None: nobody is to be named.
# name: (body, ranks, class, culprit, options)
INCIDENTS = {
    "a rank sleeps outside, found by itself": (in_loop("time.sleep(1000)  # HERE"), 3, "outside", 1, ()),
    "a rank spins": (in_loop("while True: pass  # HERE"), 3, "outside", 1, SOON),
    "a rank is stopped": (in_loop("os.kill(os.getpid(), signal.SIGSTOP)  # HERE"), 3, "stopped", 1, SOON),
    "a rank waits for a lock": (in_loop("lock = threading.Lock(); lock.acquire(); lock.acquire()  # HERE"), 3, "lock", 1, SOON),
    "a rank reads a pipe": (in_loop("os.read(os.pipe()[0], 1)  # HERE"), 3, "outside", 1, SOON),
    "a rank opens a FIFO": (in_loop("os.mkfifo('fifo'); open('fifo')  # HERE"), 3, "outside", 1, SOON),
    "a rank waits for a program that does not end": (in_loop("os.system('sleep 1000')  # HERE"), 3, "child", 1, SOON),
    "a rank waits for a service that does not answer": (
        in_loop("a, b = socket.socketpair(); a.recv(1)  # HERE"), 3, "outside", 1, SOON),
    "a rank waits for a thread that has ended": (in_loop("queue.Queue().get()  # HERE"), 3, "lock", 1, SOON),
    "a rank waits for a lock on a file": (
        in_loop("f, g = open('l', 'w'), open('l', 'w'); fcntl.flock(f, 2); fcntl.flock(g, 2)  # HERE"), 3, "outside", 1, SOON),
    "a rank misses a backward of DistributedDataParallel": ("""
    dist.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(1000000):
        loss = net(load_batch(step)).sum()
        if step == 3 and RANK == 1:
            time.sleep(1000)  # HERE
        loss.backward()
""", 3, "outside", 1, SOON),
    "a loader process is stopped": ("""
    class Stuck(torch.utils.data.Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, i):
            if RANK == 1 and i == 3:
                os.kill(os.getpid(), signal.SIGSTOP)
            return torch.ones(4)
    dist.init_process_group("gloo")
    for batch in torch.utils.data.DataLoader(Stuck(), num_workers=1):  # HERE
        train_step(batch)
""", 3, "child", 1, SOON),
    "a rank never comes to init_process_group": ("""
    if RANK == 1:
        time.sleep(1000)  # HERE
    dist.init_process_group("gloo")
""", 3, "outside", 1, SOON),
    "a rank has left before init_process_group": ("""
    if RANK == 1:
        sys.exit(0)
    dist.init_process_group("gloo")
""", 3, "left", 1, SOON),
    "all but one rank reach the barrier": ("""
    dist.init_process_group("gloo")
    if RANK == 1:
        threading.Event().wait()  # HERE
    dist.barrier()
""", 3, "lock", 1, SOON),
    "a branch skips a collective": ("""
    dist.init_process_group("gloo")
    if RANK != 1:
        dist.all_reduce(torch.ones(4))
    dist.recv(torch.ones(4), (RANK + 1) % 3)  # HERE
""", 3, "skipped", 1, SOON),
    "ranks are in different collectives": ("""
    dist.init_process_group("gloo")
    (dist.broadcast if RANK == 1 else dist.recv)(torch.ones(4), 1 - RANK)  # HERE
""", 2, "mismatch", None, SOON),
}

# These take long and end; nobody says anything.
QUIET = {
    "a rank prepares its data for long while others wait": ("""
    dist.init_process_group("gloo")
    end = time.monotonic() + 14
    while RANK == 0 and time.monotonic() < end:
        json.loads(json.dumps(list(range(1000))))
    dist.barrier()
""", 2),
    "a rank is slow in each step": ("""
    dist.init_process_group("gloo")
    for step in range(14):
        if RANK == 0:
            time.sleep(1)
        dist.all_reduce(torch.ones(4))
""", 2),
    "a rank saves for long while others wait": ("""
    dist.init_process_group("gloo")
    end = time.monotonic() + 14
    if RANK == 0:
        while time.monotonic() < end: torch.save([torch.ones(1000) for _ in range(1000)], "checkpoint.pt")
    dist.barrier()
""", 2),
    "a job with long steps": ("""
    dist.init_process_group("gloo")
    for step in range(4):
        time.sleep(4)
        dist.all_reduce(torch.ones(4))
""", 2),
    "a process that sleeps": ("time.sleep(14)", 1),
}


class Job:
    def __init__(self, program, body, ranks, options=()):
        self.folder = tempfile.mkdtemp(dir=os.environ["TMPDIR"])
        self.script = os.path.join(self.folder, "train.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(HEAD + "def main():" + (body if body.startswith("\n") else "\n    " + body) + "\n\nmain()\n")
        env = dict(os.environ, OMP_NUM_THREADS="1", PYTHON_EXEC=sys.executable, TMPDIR=self.folder)
        popen = subprocess.Popen(
            [program, "--nproc-per-node", str(ranks), "--log-dir", self.folder + "/logs", "--shutdown-timeout", "1", *options,
             self.script],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=tap.die_with_parent)
        self.program = netns.Program("dtrun", popen)

    def line_of(self, mark):
        with open(self.script, encoding="utf-8") as f:
            return next((i for i, line in enumerate(f, 1) if line.rstrip().endswith(mark)), None)

    def verdicts(self):
        return glob.glob(self.folder + "/logs/*/attempt_0/verdict.json")

    def text(self):
        return "\n".join(self.program.lines)


def check_told(job, kind, culprit):
    """One line names the rank and where it stands; the evidence says the same."""
    path = job.program.expect(r"what each worker does is in (\S+)", 60).group(1)
    with open(path, encoding="utf-8") as f:
        verdict = json.load(f)
    tap.check_equal(verdict["class"], kind, "class; it said\n%s\n" % job.text())
    said = [line for line in job.program.lines if verdict["sentence"] in line]
    tap.check_equal(len(said), 1, "lines with the sentence\n%s\n" % job.text())
    if culprit is not None:
        tap.check_equal(bool(re.search(r"\brank %d\b" % culprit, verdict["sentence"])), True, verdict["sentence"])
    here = job.line_of("# HERE")
    if here:
        tap.check_equal("train.py:%d" % here in verdict["sentence"], True, verdict["sentence"])
    tap.check_equal(os.path.exists(os.path.join(os.path.dirname(path), "stacks.txt")), True, "stacks.txt is there")


def incident(program, body, ranks, kind, culprit, options):
    job = Job(program, body, ranks, options)
    try:
        check_told(job, kind, culprit)
    finally:
        job.program.kill(signal.SIGTERM)
        job.program.end(60)


def quiet(jobs):
    for job in jobs:
        tap.check_equal(job.program.end(120), 0, "exit status; it said\n%s\n" % job.text())
        tap.check_equal(job.verdicts(), [], "verdicts; it said\n%s\n" % job.text())


def restarted(program):
    """It hangs in its first attempt alone."""
    job = Job(program, """
    dist.init_process_group("gloo")
    if RANK == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        time.sleep(1000)  # HERE
    dist.barrier()
""", 2, (*SOON, "--on-hang", "restart", "--max-restarts", "1"))
    job.program.expect("rank 1 sleeps at .*train.py:%d " % job.line_of("# HERE"), 60)
    job.program.expect("rank 1, .* was killed by SIGKILL .* rank 1 sleeps at .*; restart 1 of 1")
    tap.check_equal(job.program.end(120), 0, "exit status; it said\n%s\n" % job.text())
    tap.check_equal(len(job.verdicts()), 1, "verdicts of attempt 0")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    tap.start(limit=580)
    tap.comment("PyTorch %s" % torch.__version__)

    def wanted(table):
        return [(name, row) for name, row in table.items() if not args.only or name in args.only]

    for name, row in wanted(INCIDENTS):
        tap.case(name, lambda row=row: incident(args.dtrun, *row))
    if not args.only:
        tap.case("a job that hangs once goes on after a restart", lambda: restarted(args.dtrun))
    for name, row in wanted(QUIET):
        tap.case("nobody is blamed: " + name, lambda row=row: quiet([Job(args.dtrun, *row)]))
    tap.done()


if __name__ == "__main__":
    main()
