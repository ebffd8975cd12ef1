# SPDX-License-Identifier: Apache-2.0
#
# One launch line, run in a folder of its own by one launcher, and all that can be seen of it from
# outside, with what is different each time (pids, times, random names, the folder) made equal.

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = re.compile(r"root cause: |\S+ dtrun (warn|error|info): ")
REPORT = re.compile(
    r"torch\S+ChildFailedError: \n(=+)\n.*?^Root Cause.*?\n\1\n", re.DOTALL | re.MULTILINE)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

# A batch system in ten lines: two tasks, each with its number in the environment.
SRUN = """#!/bin/sh
for id in 0 1; do
    SLURM_NODEID=$id SLURM_PROCID=$id SLURM_LOCALID=0 SLURM_NNODES=2 SLURM_NTASKS=2 \\
        TMPDIR=$TMPDIR/$id "$@" & pids="$pids $!"
done
status=0
for pid in $pids; do wait "$pid" || status=$?; done
exit $status
"""


class Folder:
    """Where a line runs: its scripts, and places for what it leaves."""

    def __init__(self, path):
        self.path = path
        for name in ("here/pkg", "tmp/0", "tmp/1", "seen/given", "seen/hanging", "bin"):
            os.makedirs(os.path.join(path, name))
        for name in ("train.py", "pkg/__init__.py", "pkg/train.py"):
            shutil.copy(os.path.join(HERE, "told_worker.py"), os.path.join(path, "here", name))
        os.truncate(os.path.join(path, "here/pkg/__init__.py"), 0)
        with open(os.path.join(path, "bin/srun"), "w") as f:
            f.write(SRUN)
        os.chmod(os.path.join(path, "bin/srun"), 0o755)

    def environment(self, more):
        env = {name: os.environ[name]
               for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "TORCH_CPP_LOG_LEVEL", "LANG")
               if name in os.environ}
        # Both take the interpreter that has PyTorch.
        path = [os.path.dirname(sys.executable), "/usr/bin", "/bin", self.path + "/bin"]
        env.update(PATH=":".join(path), HOME=self.path, TMPDIR=self.path + "/tmp",
                   SEEN=self.path + "/seen", PYTHONDONTWRITEBYTECODE="1")
        env.update(word.replace("@", self.path).split("=", 1) for word in more)
        return env


class Run:
    """A process and what it prints, as it comes."""

    def __init__(self, folder, words, env):
        self.text, self.more = {"stdout": "", "stderr": ""}, threading.Condition()
        self.process = subprocess.Popen(
            words, cwd=folder.path + "/here", env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="backslashreplace",
            preexec_fn=tap.die_with_parent, universal_newlines=True)
        self.readers = [threading.Thread(target=self.read, args=(name,), daemon=True)
                        for name in self.text]
        for reader in self.readers:
            reader.start()

    def read(self, name):
        for line in getattr(self.process, name):
            with self.more:
                self.text[name] += line
                self.more.notify()
        with self.more:
            self.more.notify()

    def stop(self, number, workers):
        """Sends the signal once so many workers hang, or all is over."""
        def ready():
            return (self.text["stdout"].count("told: hanging\n") == workers
                    or not self.readers[0].is_alive())

        with self.more:
            if not self.more.wait_for(ready, 60):
                raise AssertionError("the workers do not start: " + self.text["stderr"])
        self.process.send_signal(number)

    def finish(self):
        self.status = self.process.wait(120)
        for reader in self.readers:
            reader.join(60)
            if reader.is_alive():
                raise AssertionError("somebody outlives the launcher and holds its output")


class Normal:
    """Makes what two runs print the same where it may be different."""

    def __init__(self, folder, port, names_job):
        self.rules = [(re.escape(folder.path), "@"), (r"torchelastic_\w{8}\b", "torchelastic_X")]
        if port:
            self.rules.append((r"\b%d\b" % port, "PORT"))
        if not names_job:  # then theirs is called "none", and ours has a random name
            self.rules += [(UUID.pattern, "JOB"), (r"\bnone_\w{8}\b", "JOB_X")]
        # A run's folder ends with eight random characters.
        self.rules.append((r"_[a-z0-9_]{8}(?=/attempt_|$)", "_X"))

    def __call__(self, text):
        for pattern, replacement in self.rules:
            text = re.sub(pattern, replacement, text)
        return text


def told_lines(text, normal):
    """What workers printed. With launchers apart there is no order between them. dtrun says in
    lines of its own why a worker or the job failed, which torchrun does not."""
    lines = REPORT.sub("", text).splitlines()
    return sorted(normal(line) for line in lines if "told:" in line and not OWN.match(line))


def without_times(text):
    text = re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"(?i)(pid:? )\d+", r"\1N", text)


def reports(text, normal):
    """Where no file tells what failed, torchrun has a hint and we have its last lines; the width
    of the rules follows from them. Where the resolver knows no better, torchrun's host is
    localhost, and ours has its name."""
    found = []
    for match in REPORT.finditer(text):
        report = without_times(normal(match.group()))
        report = re.sub(r"(?m)(^  host      : )(localhost|%s)$" % re.escape(socket.gethostname()),
                        r"\1HERE", report)
        if "error_file: <N/A>" in report:
            report = re.sub(r"(?m)^(.)\1{20,}$", r"\1", report)
            report = re.sub(r"(?s)(<N/A>\n  traceback : ).*?(?=\n[-=\[])", r"\1...", report)
        found.append(report.splitlines())
    return found


def error_file(text):
    """A record, but for its time and its spaces."""
    def without_time(found):
        return {k: type(v)() if k == "timestamp" else v for k, v in found.items()}

    return json.loads(text, object_hook=without_time)


def is_empty(path):
    """Whether there are only folders."""
    return not any(files for _, _, files in os.walk(path))


def tree(folder, normal):
    """Every file and folder that is left, by name. What torchrun leaves in the folder of temporary
    files is left out where no file is in it: dtrun removes it then."""
    found = {}
    for top in ("tmp", "logs"):
        for where, folders, files in os.walk(os.path.join(folder.path, top)):
            folders[:] = [name for name in folders if not name.startswith("torchelastic_")
                          or not is_empty(os.path.join(where, name))]
            if "rounds" in folders:
                folders.remove("rounds")  # dtrun's own: why each round ended
            for name in folders + files:
                path = os.path.join(where, name)
                text = None
                if os.path.isfile(path):
                    with open(path, errors="backslashreplace") as f:
                        text = normal(f.read())
                    text = error_file(text) if name == "error.json" else without_times(text)
                found[normal(path)] = (oct(os.stat(path).st_mode), text)
    parent = os.path.join(folder.path, "parent.json")
    if os.path.exists(parent):
        with open(parent) as f:
            found["@/parent.json"] = error_file(normal(f.read()))
    return found


def workers(folder, normal):
    found = {}
    for path in sorted(glob.glob(folder.path + "/seen/given/*")):
        with open(path) as f:
            found[os.path.basename(path)] = json.loads(normal_json(f.read(), normal))
    return found


def normal_json(text, normal):
    """Each string by itself, for a rule may end where a string does."""
    def walk(value):
        if isinstance(value, str):
            return normal(value)
        if isinstance(value, list):
            return [walk(v) for v in value]
        return {k: walk(v) for k, v in value.items()} if isinstance(value, dict) else value

    return json.dumps(walk(json.loads(text)))


def see(path, commands, env=(), port=None, names_job=False, stop=None, hanging=1):
    """Runs COMMANDS, each a list of words with @ for the folder, at once; what came of it."""
    folder = Folder(path)
    normal = Normal(folder, port, names_job)
    environment = folder.environment(env)
    runs = []
    try:
        for i, words in enumerate(commands):
            own = dict(environment)
            if len(commands) > 1:
                own["TMPDIR"] += "/%d" % i
            runs.append(Run(folder, [w.replace("@", path) for w in words], own))
        if stop:
            runs[0].stop(getattr(signal, stop), hanging)
        for run in runs:
            run.finish()
    finally:
        for run in runs:
            run.process.kill()
    seen = {
        "exit status": [run.status for run in runs],
        "standard output": [sorted(map(normal, r.text["stdout"].splitlines())) for r in runs],
        "standard error of workers": [told_lines(r.text["stderr"], normal) for r in runs],
        "report": [reports(r.text["stderr"], normal) for r in runs],
        "files": tree(folder, normal),
        "workers": workers(folder, normal),
        "all of standard error": [r.text["stderr"] for r in runs],
    }
    return seen
