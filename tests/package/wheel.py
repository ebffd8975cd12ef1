# SPDX-License-Identifier: Apache-2.0
#
# wheel.py --build FOLDER | --wheel FILE: the wheel in a fresh environment beside the PyTorch of the system: what it installs, jobs
# started in all the ways that people start them, and that nothing is left when it is gone. Speaks TAP. Needs the Python
# packages pip and venv (Debian: python3-pip, python3-venv).

import argparse
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/system"))
import tap  # noqa: E402

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

WORKER = """
import os, sys
import dtrun.progress
page = dtrun.progress.Progress()
told = os.path.join(sys.argv[1], os.environ["RANK"])
with open(told + ".part", "w") as f:
    f.write("%s %s %s %s" % (os.environ["WORLD_SIZE"], sys.prefix, "DTRUN_PROGRESS_FD" in os.environ, page.page is not None))
os.rename(told + ".part", told)  # a worker that is told to end may be anywhere: what it says is there as a whole, or not at all
sys.exit(int(sys.argv[2]))
"""

# As accelerate launch does it: its own options, and those that PyTorch's parser knows, in one namespace.
AS_ACCELERATE = """
import sys
import torch.distributed.run as distrib_run
args, _ = distrib_run.get_args_parser().parse_known_args(["--nnodes", "1", "train.py"])
args.nproc_per_node, args.max_restarts, args.training_script = 2, 0, sys.argv[1]
args.training_script_args, args.mixed_precision = sys.argv[2:], "bf16"
distrib_run.run(args)
print("after run")
"""
# As Lightning's fabric run does it.
AS_FABRIC = """
import sys
import torch.distributed.run as torchrun
torchrun.main(["--nproc_per_node=2", "--nnodes=1", "--node_rank=0"] + sys.argv[1:])
print("after main")
"""
# As torchtune's tune run does it: a parser of its own with the actions of PyTorch's.
AS_TUNE = """
import argparse, sys
from torch.distributed.run import get_args_parser, run
parser = argparse.ArgumentParser()
for action in get_args_parser()._actions:
    if action.dest != "help":
        parser._add_action(action)
args = parser.parse_args(["--nproc_per_node", "2"] + sys.argv[1:])
args.module, args.func = False, print
run(args)
"""
STOPPED = """
import os, signal, sys, threading
from dtrun import run
os.mkfifo(sys.argv[1])
def stop():
    open(sys.argv[1]).read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop, daemon=True).start()
try:
    run.main(["--no-python", "sh", "-c", "echo >$0; exec sleep 1000", sys.argv[1]])
except run.JobFailed as e:
    print("status", e.status)
"""


class Environment:
    """A virtual environment that sees the packages of the system, with the wheel in it."""

    def __init__(self, folder, wheel):
        self.folder, self.top = folder, os.path.join(folder, "env")
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", self.top], check=True)
        self.before = self.files()
        self.pip("install", "--no-index", "--no-deps", wheel)

    def pip(self, *words):
        # Without byte code of what is installed: all files are those of the wheel.
        subprocess.run([self.python, "-m", "pip", "--disable-pip-version-check", "-q", words[0]]
                       + (["--no-compile"] if words[0] == "install" else []) + list(words[1:]), check=True)

    @property
    def python(self):
        return os.path.join(self.top, "bin/python")

    def bin(self, name):
        return os.path.join(self.top, "bin", name)

    def files(self):
        return {os.path.relpath(os.path.join(here, name), self.top)
                for here, folders, names in os.walk(self.top) for name in names + folders}

    def run(self, *words, expect=0, **more):
        """Output of a command in an empty environment but for PATH, with a Python in it that is not this one's."""
        env = dict({"PATH": "/usr/bin:/bin", "HOME": self.folder, "TMPDIR": self.folder, "PYTHONDONTWRITEBYTECODE": "1"}, **more)
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
            if name in os.environ:
                env.setdefault(name, os.environ[name])
        job = subprocess.run(words, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, preexec_fn=tap.die_with_parent, universal_newlines=True)
        if job.returncode != expect:
            raise AssertionError("%s: exit status %d\n%s" % (" ".join(words), job.returncode, job.stdout))
        return job.stdout


class Job:
    """Two workers that say where they are."""

    def __init__(self, env):
        self.env, self.script = env, env.folder + "/train.py"
        self.write("train.py", WORKER)

    def write(self, name, text):
        path = os.path.join(self.env.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def started_by(self, *words, end=0, expect=None, dtrun=True, **more):
        """What these words print; they get the script and its arguments. DTRUN: whether dtrun is to do it. When one worker
        fails, the other may not have begun."""
        told = tempfile.mkdtemp(dir=self.env.folder)
        out = self.env.run(*words, self.script, told, str(end), expect=end if expect is None else expect, **more)
        seen = {}
        for rank in (name for name in os.listdir(told) if name.isdigit()):
            with open(os.path.join(told, rank)) as f:
                seen[rank] = f.read()
        page = "%s %s" % (dtrun, dtrun)
        tap.check_equal(seen, {rank: "2 %s %s" % (self.env.top, page) for rank in (seen if end else "01")}, "what the workers saw")
        tap.check_equal(seen != {}, True, "whether a worker ran")
        return out


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_wheel(build, folder):
    out = subprocess.run([os.path.join(TOP, "scripts/package"), "wheel"], env=dict(os.environ, BUILD=build, DIST=folder),
                         stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    return out.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", metavar="FOLDER")
    parser.add_argument("--wheel", metavar="FILE")
    given = parser.parse_args()
    tap.start()
    tap.comment("PyTorch %s" % torch.__version__)
    folder = tempfile.mkdtemp()
    wheel = os.path.abspath(given.wheel) if given.wheel else make_wheel(given.build, folder)
    tap.comment(os.path.basename(wheel))
    env = Environment(folder, wheel)
    job = Job(env)
    two = ("--nproc_per_node", "2")  # PyTorch 1.13 knows no dashes
    version = re.search(r"-([0-9.]+)-", os.path.basename(wheel)).group(1)

    def installed():
        for program in ("dtrun", "dtrun-ctl", "dtrun-launch", "dtrun-rendezvous", "dtrun-train"):
            tap.check_equal(env.run(env.bin(program), "--version"), "%s %s\n" % (program, version), program)
        for path in ("share/man/man1/dtrun.1", "share/man/man8/dtrun-rendezvous.8", "include/dtrun/dtrun.h",
                     "share/bash-completion/completions/dtrun", "lib/libdtrun.so.0"):
            assert os.path.exists(os.path.join(env.top, path)), path

    def programs_need_little():
        """What a wheel must not need is not there, and what it took along is found."""
        for program in glob.glob(env.top + "/bin/dtrun*"):
            for line in env.run("ldd", program).splitlines():
                assert env.top in line or re.search(r"lib(c|m)\.so|ld-linux|linux-vdso", line), line

    def helpers_are_found():
        """The one that binds workers; where there is none it would say so and fail."""
        env.run(env.bin("dtrun"), "--numa-binding=node", "--no-python", "true")

    def as_a_program():
        out = job.started_by(env.bin("dtrun"), *two)
        tap.check_equal("Traceback" in out, False, "a traceback")

    def failing():
        out = job.started_by(env.bin("dtrun"), *two, end=7, expect=1)
        assert "exitcode  : 7" in out, out

    def as_a_module():
        job.started_by(env.python, "-m", "dtrun", *two)

    def by_calls():
        script = job.write("call.py", "import sys\nfrom dtrun.run import parse_args, run\n"
                           "run(parse_args(['--nproc-per-node', '2'] + sys.argv[1:]))\nprint('after')\n")
        assert job.started_by(env.python, script).endswith("after\n")

    def calls_that_fail():
        script = job.write("fail.py", "import sys\nfrom dtrun import run\ntry:\n    run.main(['--nproc-per-node=2'] + sys.argv[1:])\n"
                           "except run.JobFailed as e:\n    print('status', e.status)\n")
        assert job.started_by(env.python, script, end=3, expect=0).endswith("status 1\n")

    def stopping_a_caller():
        script = job.write("stopped.py", STOPPED)
        out = env.run(env.python, script, env.folder + "/runs")
        assert "got signal: 15" in out and out.endswith("status 1\n"), out

    def pytorchs_own(**more):
        # Python 3.11 does not find "none" among the streams of PyTorch 1.13. Its usual port may be another test's.
        job.started_by(env.python, "-m", "torch.distributed.run", "--redirects=1", "--tee=1", "--master_port=%d" % free_port(), *two,
                       dtrun=False, **more)

    def in_torchruns_place(**more):
        job.started_by(env.python, "-m", "torch.distributed.run", *two, **more)
        job.started_by(env.python, "-u", "-mtorch.distributed.run", *two, **more)
        job.started_by(env.python, "-m", "torch.distributed.launch", "--use_env", *two, **more)
        torchrun = job.write("torchrun", "import sys\nfrom torch.distributed.run import main\nsys.exit(main())\n")
        job.started_by(env.python, torchrun, *two, **more)
        assert "after run" in job.started_by(env.python, job.write("accelerate.py", AS_ACCELERATE), **more)
        assert "after main" in job.started_by(env.python, job.write("fabric.py", AS_FABRIC), **more)
        job.started_by(env.python, job.write("tune.py", AS_TUNE), **more)

    def by_the_hook():
        env.run(env.python, "-m", "dtrun.install_hook")
        in_torchruns_place()
        pytorchs_own(DTRUN_REPLACES_TORCHRUN="0")
        env.run(env.python, "-m", "dtrun.install_hook", "--remove")
        pytorchs_own()

    def gone():
        env.pip("uninstall", "-y", "dtrun")
        left = env.files() - env.before
        # Folders that many packages share may stay.
        tap.check_equal({path for path in left if "dtrun" in path or os.path.isfile(os.path.join(env.top, path))}, set(), "files")

    tap.case("it installs programs, pages and libraries", installed)
    if given.wheel:  # a build that was made for other things takes all from the system
        tap.case("its programs need the C library and what came along", programs_need_little)
    tap.case("they find their helper libraries", helpers_are_found)
    tap.case("dtrun runs workers with the Python of its environment", as_a_program)
    tap.case("a job that fails is reported", failing)
    tap.case("python -m dtrun is dtrun", as_a_module)
    tap.case("a program calls dtrun.run", by_calls)
    tap.case("a failure is an exception there", calls_that_fail)
    tap.case("a caller that is told to end ends its job", stopping_a_caller)
    tap.case("torchrun stays PyTorch's", pytorchs_own)
    tap.case("with a variable it is dtrun", lambda: in_torchruns_place(DTRUN_REPLACES_TORCHRUN="1"))
    tap.case("with the hook, too, until it is removed", by_the_hook)
    tap.case("nothing stays when it is uninstalled", gone)
    shutil.rmtree(folder)
    tap.done()


main()
