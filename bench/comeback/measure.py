# SPDX-License-Identifier: Apache-2.0
"""What comeback.sh prints of one of the two:

    measure.py dtrun KILLS FOLDER BUILD            measure.py torchrun KILLS FOLDER
    measure.py goodput-dtrun EVERY MINUTES FOLDER BUILD            measure.py goodput-torchrun EVERY MINUTES FOLDER
"""
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MODEL = str(HERE.parent / "train" / "model.json")
STEPS = 100000  # more than are ever done
BETWEEN = (12, 40)  # steps from one kill to the next
SAVE_EVERY = 50  # steps
SAVE_OFTEN = 10  # where a kill every 30 s would leave no time for 50


class Metrics:
    """The steps that a job has told, as they come."""

    def __init__(self, path):
        self.path, self.at, self.steps, self.times = path, 0, [], []

    def read(self):
        try:
            with open(self.path, "rb") as f:
                # dtrun-train takes out the lines of steps that it is about to redo.
                self.at = min(self.at, os.fstat(f.fileno()).st_size)
                f.seek(self.at)
                text = f.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self.at += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            if "step" in row and "validation_loss" not in row:
                self.steps.append(row["step"])
                self.times.append(time.monotonic())

    def wait_for(self, is_there, job):
        end = time.monotonic() + 180
        while not is_there():
            if time.monotonic() > end or job.is_over():
                sys.exit("measure.py: the job did not come back:\n" + job.said())
            time.sleep(0.002)
            self.read()

    def last(self):
        return self.steps[-1] if self.steps else 0


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == pid:
                found += [int(entry.name)] + children(int(entry.name))
    return found


def environment(pid):
    try:
        return pathlib.Path("/proc/%d/environ" % pid).read_bytes().split(b"\0")
    except OSError:
        return []


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Job:
    """Agents of one job. MAKE(name) is the command of one."""

    def __init__(self, folder, make, env):
        self.folder, self.make, self.env, self.agents = pathlib.Path(folder), make, env, {}

    def start(self, name):
        with open(self.folder / ("said-" + name), "ab") as said:
            self.agents[name] = subprocess.Popen(self.make(name), env=self.env, stdout=said, stderr=said)

    def is_over(self):
        return all(agent.poll() is not None for agent in self.agents.values())

    def said(self):
        return "".join((self.folder / ("said-" + name)).read_text()[-2000:] for name in self.agents)

    def worker(self, rank):
        wanted = b"RANK=%d" % rank
        for agent in self.agents.values():
            below = [pid for pid in children(agent.pid) if wanted in environment(pid)]
            if below:
                return below[-1], agent
        return None, None

    def end(self):
        for agent in self.agents.values():
            kill(children(agent.pid) + [agent.pid])
            agent.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def take_down_rank(job, chance):
    pid, _ = job.worker(chance.randrange(2))
    kill([pid])
    return None


def take_down_agent(job, chance):
    """With all that is below, as a host that loses its power; another one then stands by in its place."""
    _, agent = job.worker(chance.randrange(2))
    name = next(n for n, a in job.agents.items() if a is agent)
    kill([agent.pid] + children(agent.pid))
    agent.wait()
    return name


def measure(what, job, metrics, take_down, kills):
    try:
        measure_kills(what, job, metrics, take_down, kills)
    finally:
        job.end()


def measure_kills(what, job, metrics, take_down, kills):
    chance = random.Random(1)
    took, redone, paces = [], [], []
    for _ in range(kills):
        begun = len(metrics.steps)
        wanted = metrics.last() + chance.randint(*BETWEEN)
        metrics.wait_for(lambda: metrics.last() >= wanted, job)
        times = metrics.times[begun + 2 :]
        pace = statistics.median(b - a for a, b in zip(times, times[1:]))
        paces.append(pace)
        time.sleep(chance.random() * pace)
        metrics.read()
        before, seen, at = metrics.last(), len(metrics.steps), time.monotonic()
        gone = take_down(job, chance)
        if gone:
            job.start(gone)
        metrics.wait_for(lambda: metrics.last() > before, job)
        took.append(metrics.times[-1] - at)
        redone.append(sum(step <= before for step in metrics.steps[seen:]))
    step = statistics.median(paces)
    print(
        "%-10s %-6s  next new step after %7.2f s (least %.2f, most %.2f; a step takes %.2f s); steps redone: %g on average, %d at most"
        % (what[0], what[1], statistics.median(took), min(took), max(took), step, statistics.mean(redone), max(redone)),
        flush=True,
    )


def measure_goodput(what, job, metrics, every, seconds):
    try:
        run_under_kills(what, job, metrics, every, seconds)
    finally:
        job.end()


def run_under_kills(what, job, metrics, every, seconds):
    """Kills a rank every so many seconds. Goodput: the time that the new steps take by themselves, of all time."""
    chance = random.Random(1)
    metrics.wait_for(lambda: len(metrics.steps) >= 5, job)
    begun, seen, kills = time.monotonic(), len(metrics.steps), 0
    due = begun + every
    while time.monotonic() < begun + seconds:
        if time.monotonic() >= due:
            pid, _ = job.worker(chance.randrange(2))
            kill([pid] if pid else [])
            kills += bool(pid)
            due += every + chance.random() - 0.5 if pid else 0.1  # anywhere within a step
        if job.is_over():
            sys.exit("measure.py: the job is over:\n" + job.said())
        time.sleep(0.005)
        metrics.read()
    wall = time.monotonic() - begun
    steps, times = metrics.steps[seen - 1 :], metrics.times[seen - 1 :]
    new = max(steps) - steps[0]
    step = statistics.median(b - a for a, b in zip(times, times[1:]))
    print("%-10s %d kills in %.0f s: goodput %5.1f %%; %d new steps, %d redone; a step takes %.2f s" % (
        what, kills, wall, 100 * new * step / wall, new, len(steps) - 1 - new, step), flush=True)


def dtrun_train(name, folder, build, save_every):
    return [
        build + "/worker_runtime/dtrun-train", "--config", MODEL, "--set", "data.train=%s/tokens.bin" % folder,
        "--set", "train.threads=1", "--set", "train.steps=%d" % STEPS, "--set", "train.save_every=%d" % save_every,
        # Every step, also where a copy takes more than 2 % of these small ones and the vault would choose one step in two.
        "--set", "train.vault_every=1",
        "--set", "train.save_dir=%s/checkpoints-%s" % (folder, name), "--set", "train.metrics=%s/metrics-%s" % (folder, name),
    ]  # fmt: skip


def dtrun_alone(folder, build, save_every):
    """Two ranks of one node."""
    job = Job(folder, lambda name: [build + "/launcher/dtrun", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1000",
                                    "--log-dir", folder + "/logs-rank"] + dtrun_train("rank", folder, build, save_every), dict(os.environ))  # fmt: skip
    job.start("a")
    return job, Metrics(folder + "/metrics-rank")


def with_dtrun(kills, folder, build):
    measure(("dtrun", "rank"), *dtrun_alone(folder, build, SAVE_EVERY), take_down_rank, kills)
    port = free_port()
    server = subprocess.Popen([build + "/rendezvous/dtrun-rendezvous", "--listen", "127.0.0.1:%d" % port], stderr=subprocess.DEVNULL)
    nodes = Job(folder, lambda name: [build + "/launcher/dtrun", "--nnodes", "2", "--spares", "1", "--node-name", name,
                                      "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % port, "--rdzv-id", "comeback",
                                      "--log-dir", folder + "/logs-" + name] + dtrun_train("agent", folder, build, SAVE_EVERY), dict(os.environ))  # fmt: skip
    for name in "abc":
        nodes.start(name)
    try:
        measure(("dtrun", "agent"), nodes, Metrics(folder + "/metrics-agent"), take_down_agent, kills)
    finally:
        server.kill()
        server.wait()


TORCHRUN = ["python3", "-m", "torch.distributed.run", "--max-restarts", "1000"]


def torch_env():
    """Else workers that are started again find the addresses of those before them in a store that all attempts share, and fail
    again and again, until they happen to write their own soon enough."""
    return {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def torch_train(name, folder, save_every):
    return [str(HERE / "torch_train.py"), str(STEPS), "%s/torch-%s.pt" % (folder, name), "%s/torch-metrics-%s" % (folder, name), str(save_every)]


def torchrun_alone(folder, save_every):
    job = Job(folder, lambda name: TORCHRUN + ["--standalone", "--nproc-per-node", "2"] + torch_train("rank", folder, save_every), torch_env())
    job.start("torch")
    return job, Metrics(folder + "/torch-metrics-rank")


def with_torchrun(kills, folder):
    measure(("torchrun", "rank"), *torchrun_alone(folder, SAVE_EVERY), take_down_rank, kills)
    port = free_port()
    nodes = Job(folder, lambda name: TORCHRUN + ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % port,
                                                 "--rdzv-id", "comeback", "--rdzv-conf", "is_host=%d" % (name == "host")] +
                torch_train("agent", folder, SAVE_EVERY), torch_env())  # fmt: skip
    for name in ("host", "other"):
        nodes.start(name)
    # The host of its store cannot be lost, so it is always the other one that is.
    measure(("torchrun", "agent"), nodes, Metrics(folder + "/torch-metrics-agent"), take_down_other, kills)


def take_down_other(job, _):
    agent = job.agents["other"]
    kill([agent.pid] + children(agent.pid))
    agent.wait()
    return "other"


def main(what, *args):
    if what == "dtrun":
        with_dtrun(int(args[0]), *args[1:])
    elif what == "torchrun":
        with_torchrun(int(args[0]), *args[1:])
    else:
        alone = dtrun_alone if what == "goodput-dtrun" else torchrun_alone
        measure_goodput(what.partition("-")[2], *alone(*args[2:], SAVE_OFTEN), int(args[0]), 60 * int(args[1]))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no job outlives this
    main(*sys.argv[1:])
