# SPDX-License-Identifier: Apache-2.0
#
# stragglers.py --dtrun PROGRAM --train PROGRAM --rendezvous PROGRAM --ctl PROGRAM [NAME...]: jobs of three ranks in which one holds the others up, step after
# step: the terminal says which, and why. And jobs in which none does, or only for a moment: nobody is named.

import argparse
import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading

import servers
import tap
import training

JOBS = 7  # at a time: they wait more than they compute
RANKS = 3
SLOW = r"rank 1 holds the others up: (.*)"
ANY = r"rank \d+ holds the others up"
AGAIN = r"rank 1 keeps up with the others again, after "
PATIENCE = 120
MODEL = {**training.GPT2, "n_layer": 4, "n_embd": 192, "n_head": 6, "n_positions": 128}

# Trains until a clock says that it is over. MODE says what is wrong with rank 1, or with rank 0.
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MODE, END = sys.argv[1], time.time() + float(sys.argv[2])
dist.init_process_group("gloo")
torch.set_num_threads(1)
RANK = dist.get_rank()


def load_batch(step):
    time.sleep(0.1 if MODE == "loader" and RANK == 1 else 0.02)
    if MODE == "hiccup" and RANK == 1 and step == 40:
        time.sleep(6)
    return torch.randn(16, 64)


def save(step):
    if MODE == "saves" and RANK == 0 and step % 100 == 0:
        time.sleep(1)


def train():
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    step, over = 0, torch.zeros(1)
    while over.item() == 0:
        model(load_batch(step)).pow(2).mean().backward()
        step += 1
        save(step)
        over.fill_(float(time.time() > END))
        dist.all_reduce(over)


train()
os._exit(0)  # PyTorch 1.13 now and then ends itself when it takes down its threads
"""


def torch_job(s, mode, seconds, *options):
    python = subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True, check=False)
    if python.returncode != 0:
        raise tap.Skip("python3-torch is not installed")
    with open(s.path("train.py"), "w", encoding="utf-8") as f:
        f.write(SCRIPT)
    options = options or ("--nproc-per-node", str(RANKS))
    return s.start_words([s.tools.dtrun, *options, "--log-dir", s.path("logs"), "--hang-after", "off", s.path("train.py"), mode,
                          str(seconds)], {"PYTHON_EXEC": sys.executable})


def torch_nodes(s, port, on_straggler, spares):
    """Two nodes of one rank each, and then spares: all by their programs."""
    nodes = []
    for number in range(2 + spares):
        nodes.append(torch_job(
            s, "loader", 10 ** 6, "--nnodes", "2", "--spares", str(spares), "--rdzv-backend", "c10d", "--rdzv-id", "job",
            "--rdzv-endpoint", "127.0.0.1:%d" % port, "--rdzv-conf", "keep_alive_interval=1", "--nproc-per-node", "1",
            "--node-name", "node%d" % number, "--on-straggler", on_straggler, "--log-level", "info"))
        nodes[-1].expect("joining job")
        if number >= 1:
            nodes[-1].expect("stands by as a spare" if number > 1 else "node 1 of 2")
    return nodes


def train_job(s):
    """Its steps are long enough for most of them to be own time, and not the sum of gradients."""
    config = s.config(steps=10 ** 6, batch=2 * RANKS, model=MODEL, log_every=100)
    program = s.start(config, world=RANKS, dtrun=("--log-dir", s.path("logs")))
    program.expect(r"CPU, ")
    training.wait_for(lambda: len(s.workers(program)) == RANKS, "workers")
    return program


@contextlib.contextmanager
def stopped_again_and_again(pid):
    """For two thirds of the time."""
    over = threading.Event()

    def pulse():
        while not over.wait(0.05):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.1)
            os.kill(pid, signal.SIGCONT)
    thread = threading.Thread(target=pulse)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def crowded(pid):
    """Two programs on the one processor that it may use. They come before it, so that it is slow on a busy machine too:
    by its own priority and, where the kernel shares processors among sessions first, by that of its session."""
    processor = min(os.sched_getaffinity(pid))
    for tid in map(int, os.listdir("/proc/%d/task" % pid)):
        os.sched_setaffinity(tid, {processor})
        os.setpriority(os.PRIO_PROCESS, tid, 10)
    with contextlib.suppress(OSError), open("/proc/%d/autogroup" % pid, "w", encoding="ascii") as f:
        f.write("10")
    burn = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True, preexec_fn=tap.die_with_parent)
            for _ in range(2)]
    try:
        for b in burn:
            os.sched_setaffinity(b.pid, {processor})
        yield
    finally:
        for b in burn:
            b.kill()
            b.wait()


def trains_while(what, says, ends):
    """WHAT makes rank 1 slow; ENDS: and has no effect any more when it is over."""
    def tell(s):
        program = train_job(s)
        with what(s.workers(program)[1]):
            check_reason(program.expect(SLOW, PATIENCE).group(1), says)
        if ends:
            program.expect(AGAIN, PATIENCE)
        program.kill(signal.SIGTERM)
        program.end(60)
    return tell


def check_reason(sentence, says):
    tap.check_equal(bool(re.search(says, sentence)), True, "%r in %s" % (says, sentence))


def loads_slowly(s):
    program = torch_job(s, "loader", 10 ** 6)
    check_reason(program.expect(SLOW, PATIENCE).group(1), r"sleeps outside of collectives, .* at train\.py:\d+ in load_batch\(\)")
    program.kill(signal.SIGTERM)
    program.end(60)


def all_nodes_agree(s):
    """Each terminal says the same; dtrun-ctl shows it."""
    with servers.daemon(s.tools.rendezvous) as server:
        nodes = torch_nodes(s, server.port, "drain", 0)
        said = [node.expect(r"rank 1 on node1 holds the others up: .*", PATIENCE).group(0) for node in nodes]
        tap.check_equal(said[1], said[0], "what the second node says")
        shown = subprocess.run([s.tools.ctl, "status", "--endpoint", "127.0.0.1:%d" % server.port], capture_output=True,
                               text=True, check=True).stdout
        tap.check_equal(said[0] in shown, True, "%r in %s" % (said[0], shown))
        for node in nodes:
            node.kill(signal.SIGTERM)
        for node in nodes:
            node.end(60)


def makes_room(s):
    """A spare takes the place of the slow rank's node."""
    with servers.daemon(s.tools.rendezvous) as server:
        nodes = torch_nodes(s, server.port, "drain", 1)
        for node in nodes[:2]:
            node.expect(r"round 0 is over: node1 is drained \(rank 1 held the others up: it sleeps", PATIENCE)
        nodes[2].expect("round 1: .*node2 takes seat 1 of node1", PATIENCE)
        for node in nodes:
            node.kill(signal.SIGTERM)
        for node in nodes:
            node.end(60)


def names_nobody(mode):
    def tell(s):
        program = torch_job(s, mode, 30)
        tap.check_equal(program.end(PATIENCE), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        tap.check_equal([line for line in program.lines if re.search(ANY, line)], [], "who is named")
    return tell


# The last ones compute, and come when the others are through.
STORIES = {
    "a slow loader in one rank is named with its line": loads_slowly,
    "all nodes of an elastic job say the same": all_nodes_agree,
    "a spare takes the place of a straggler's node": makes_room,
    "ranks that are slow alike are not named": names_nobody("even"),
    "one long step is not named": names_nobody("hiccup"),
    "rank 0 that saves now and then is not named": names_nobody("saves"),
    "one that signals stop again and again is named": trains_while(
        stopped_again_and_again, "signals stop it|it sleeps outside", True),
}
ALONE = {
    "one whose processor others use is named": trains_while(crowded, "other programs run on its processors: .* one is", False),
}


def told(tools, tell):
    s = training.Story(tools)
    try:
        tell(s)
    finally:
        s.finish()


def run(tools, stories, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        cases = [(name, pool.submit(told, tools, tell)) for name, tell in stories.items()
                 if not tools.only or name in tools.only]
        for name, future in cases:
            tap.case(name, future.result)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--dtrun", "--train", "--rendezvous", "--ctl"):
        parser.add_argument(name, required=True, metavar="PROGRAM")
    parser.add_argument("only", nargs="*")
    tools = parser.parse_args()
    tap.start()
    run(tools, STORIES, JOBS)
    run(tools, ALONE, 1)
    tap.done()


if __name__ == "__main__":
    main()
