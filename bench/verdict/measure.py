# SPDX-License-Identifier: Apache-2.0
"""measure.py DTRUN ROUNDS SECONDS [PY-SPY]: what verdict.sh prints."""
import datetime
import os
import pathlib
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WORKER = str(pathlib.Path(__file__).with_name("worker.py"))
GLOO = str(pathlib.Path(__file__).with_name("gloo.py"))
GLOO_PYTHON = "/usr/bin/python3"  # the system's, which has a package of PyTorch
VERDICT = re.compile(r"^(\S+Z) dtrun warn: the job has stood still for", re.M)
TICKS = os.sysconf("SC_CLK_TCK")


class Job:
    """dtrun with workers, its output in files."""

    def __init__(self, dtrun, workers, options, *args, python=sys.executable, worker=WORKER):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        command = [dtrun, "--nproc-per-node", str(workers), "--log-dir", str(self.folder / "logs"), *options, worker, *args]
        env = dict(os.environ, OMP_NUM_THREADS="1", PYTHON_EXEC=python)
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(command, env=env, stdout=out, stderr=err)

    def text(self, name):
        return (self.folder / name).read_text()

    def numbers(self, word):
        return [float(line.split()[1]) for line in self.text("out").splitlines() if line.startswith(word)]

    def wait_for(self, is_there):
        end = time.monotonic() + 120
        while not is_there():
            if self.process.poll() is not None or time.monotonic() > end:
                said = self.text("err")
                self.end()
                sys.exit("measure.py: the job did not do what it should:\n" + said)
            time.sleep(0.01)

    def cpu_seconds(self):
        """dtrun's own, without its guard and the workers."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        shutil.rmtree(self.folder)


def spread(values, unit):
    return f"{statistics.median(values):9.1f} {max(values):9.1f} {unit}"


def wait_for_verdict(job):
    """From the moment that the last worker stands still to dtrun's line, in seconds."""
    job.wait_for(lambda: VERDICT.search(job.text("err")))
    told = datetime.datetime.fromisoformat(VERDICT.search(job.text("err"))[1].replace("Z", "+00:00"))
    took = told.timestamp() - max(job.numbers("still"))
    job.end()
    return took


def time_to_verdict(dtrun, after, workers):
    return wait_for_verdict(Job(dtrun, workers, ["--hang-after", after], "hang", "4"))


def wait_for_gloo(job):
    """From the moment that the last rank stands still to the first error that gloo gives another one, in seconds."""
    job.wait_for(lambda: job.numbers("error") and job.numbers("still"))
    took = job.numbers("error")[0] - job.numbers("still")[0]
    job.end()
    return took


def measure_gloo(dtrun, rounds, seconds):
    print(f"\na job of PyTorch's gloo, a limit of {seconds} s                 median       max")
    for ranks in (2, 4):
        own, told = [], []
        for _ in range(rounds):
            told.append(wait_for_verdict(Job(dtrun, ranks, ["--hang-after", str(seconds)], "600", python=GLOO_PYTHON, worker=GLOO)))
            own.append(wait_for_gloo(Job(dtrun, ranks, ["--no-look"], str(seconds), python=GLOO_PYTHON, worker=GLOO)))
        print(f"    {ranks} ranks: the verdict of dtrun                    ", spread([1e3 * t for t in told], "ms"))
        print("      an error of gloo, which names no rank or line ", spread([1e3 * t for t in own], "ms"))
        ratio = statistics.median(o / t for o, t in zip(own, told))
        print(f"      gloo's time to dtrun's                        {ratio:9.2f}")


def measure_verdict(dtrun, rounds):
    print("\nfrom standing still to the verdict, 8 workers         median       max")
    for after, seconds in (("1", 1), ("5", 5), ("auto", 2)):  # auto: 2 s where steps are short
        times = [1e3 * time_to_verdict(dtrun, after, 8) for _ in range(rounds)]
        print(f"    --hang-after {after:<35}", spread(times, "ms"))
        print(f"      beyond {seconds} s{'':36}", spread([t - 1e3 * seconds for t in times], "ms"))
    print("    by comparison: PyTorch's own time-outs are 600 s (NCCL) and 1800 s (gloo) unless a script sets others")


def rate(dtrun, options, seconds):
    """Rounds of all workers in a second of their processor time, and the seconds of dtrun's."""
    workers = os.cpu_count()
    job = Job(dtrun, workers, options, "count", str(seconds))
    used = 0
    while job.process.poll() is None:
        try:
            used = job.cpu_seconds()
        except (OSError, IndexError):
            break
        time.sleep(0.05)
    job.process.wait()
    result = sum(job.numbers("rounds")), used
    shutil.rmtree(job.folder)
    return result


def idle_cpu(dtrun, options, seconds):
    """dtrun's share of a core, in percent, while 8 workers of 64 threads stand still."""
    job = Job(dtrun, 8, options, "hang", "64")
    job.wait_for(lambda: len(job.numbers("still")) == 8)
    before = job.cpu_seconds()
    time.sleep(seconds)
    share = 100 * (job.cpu_seconds() - before) / seconds
    job.end()
    return share


def measure_watching(dtrun, rounds, seconds):
    watched, alone = [], []
    for _ in range(rounds):
        alone.append(rate(dtrun, ["--no-look"], seconds))
        watched.append(rate(dtrun, [], seconds))
    ratio = statistics.median(w[0] / a[0] for w, a in zip(watched, alone))
    noise = max(a[0] for a in alone) / min(a[0] for a in alone)
    print(f"\nworkers that compute, one on each of {os.cpu_count()} cores")
    print(f"    speed when watched, to --no-look                 {ratio:9.4f}")
    print(f"    fastest to slowest round of --no-look            {noise:9.4f}")
    more = statistics.median(w[1] - a[1] for w, a in zip(watched, alone)) / seconds / os.cpu_count()
    print(f"    dtrun's processor time for that, a worker        {100 * more:9.2f} % of a core")
    shares = [idle_cpu(dtrun, o, seconds) for o in (["--no-look"], ["--hang-after", "1h"])]
    print("8 workers of 64 threads that stand still")
    print(f"    dtrun's processor time for that, a worker        {(shares[1] - shares[0]) / 8:9.2f} % of a core")


def timed(command):
    """How long it takes, and how much of a processor, in ms."""
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    took, now = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * took, 1e3 * (now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)


def children_of(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def workers_of(job):
    """The children of the guard, which is dtrun's only child."""
    return [worker for guard in children_of(job.process.pid) for worker in children_of(guard)]


def measure_look(dtrun, rounds, py_spy, workers, threads):
    job = Job(dtrun, workers, ["--no-look"], "hang", str(threads))
    job.wait_for(lambda: len(job.numbers("still")) == workers)
    time.sleep(1)
    nothing = [timed([dtrun, "--version"])[0] for _ in range(rounds)]
    looks, used = zip(*(timed([dtrun, "--look", str(job.process.pid)]) for _ in range(rounds)))
    title = f"a look at {workers} workers of {threads} threads"
    print(f"\n{title:<52}   median       max")
    print("    dtrun --look, the whole program                 ", spread(looks, "ms"))
    print("      its processor time                            ", spread(used, "ms"))
    print("      to start and end it                           ", spread(nothing, "ms"))
    if py_spy:
        pids = workers_of(job)
        dumps = [sum(timed([py_spy, "dump", "--pid", p])[0] for p in pids) for _ in range(rounds)]
        print("    py-spy dump, of one after the other             ", spread(dumps, "ms"))
        print(f"      to dtrun --look                                 {statistics.median(dumps) / statistics.median(looks):7.1f}")
    job.end()


def main(dtrun, rounds, seconds, py_spy=None):
    measure_look(dtrun, int(rounds), py_spy, 8, 64)
    measure_look(dtrun, int(rounds), py_spy, 64, 4)
    measure_watching(dtrun, int(rounds), int(seconds))
    measure_verdict(dtrun, int(rounds))
    if subprocess.run([GLOO_PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        measure_gloo(dtrun, int(rounds), 5)
    else:
        print(f"\n{GLOO_PYTHON} has no PyTorch: a job of gloo is not measured")


main(*sys.argv[1:])
