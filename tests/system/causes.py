# SPDX-License-Identifier: Apache-2.0
#
# causes.py --dtrun COMMAND: jobs of one node that fail for real, and the one sentence below torchrun's
# report that says why.

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

import tap

SCRIPT = """import os, signal, sys
rank = int(os.environ["RANK"])
%s
"""


def job(dtrun, options, script, words=(), raw=False, env=(), wrap=()):
    """What dtrun printed on standard error, and how it ended. SCRIPT: the text of one; RAW: a path."""
    path = script
    if not raw:
        path = os.path.join(tempfile.mkdtemp(), "train.py")
        with open(path, "w") as f:
            f.write(SCRIPT % script)
    done = subprocess.run(
        [*wrap, dtrun, "--standalone", *options, path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHON_EXEC": sys.executable, **dict(env)},
        text=True,
    )
    return done.returncode, done.stderr


def line_of(err):
    """The sentence, which is the line behind torchrun's block."""
    found = re.findall("^={10,}\nroot cause: (.*)\n", err, re.MULTILINE)
    if len(found) != 1:
        raise AssertionError("not one root cause in: " + err[-3000:])
    return found[0]


def expect(name, pattern, dtrun, *args, **more):
    def run():
        status, err = job(dtrun, *args, **more)
        tap.check_equal(status, 1, "exit status")
        line = line_of(err)
        if not re.fullmatch(pattern, line):
            raise AssertionError("%r does not fit %r; all: %s" % (line, pattern, err[-3000:]))

    tap.case(name, run)


def mistakes(dtrun):
    expect("a script that is not there",
           r"rank 0 found no script to run: .*can't open file '/no/train\.py'.*; a retry cannot help",
           dtrun, ("--no-python",), sys.executable, ("/no/train.py",), raw=True)
    expect("an argument that it does not take",
           r"rank 0 was given arguments that its script does not take: train\.py: error: "
           r"unrecognized arguments: --nope; a retry cannot help",
           dtrun, (), "import argparse\nargparse.ArgumentParser().parse_args()", ("--nope",))
    expect("a module that is not there",
           r"rank 0 did not find a module at train\.py:3: ModuleNotFoundError: No module named "
           r"'dt_no_such_module'; a retry cannot help; install it .*",
           dtrun, (), "import dt_no_such_module")
    expect("an exception",
           r"rank 0 raised an exception at train\.py:4: KeyError: 'x'; a retry seldom helps",
           dtrun, (), "d = {}\nd['x']")


def signals(dtrun):
    expect("a crash", r"rank 0 crashed \(SIGSEGV\)(; its core: .*)?; a retry may help",
           dtrun, (), "os.kill(os.getpid(), signal.SIGSEGV)")
    expect("a crash that faulthandler saw",
           r"rank 0 crashed \(SIGSEGV\) at train\.py:3(; its core: .*)?; a retry may help",
           dtrun, (), "import ctypes; ctypes.string_at(0)", env={"PYTHONFAULTHANDLER": "1"}.items())
    expect("SIGTERM from outside",
           r"rank 0 was told to end by somebody outside of this job \(SIGTERM\); a retry may help; .*",
           dtrun, (), "os.kill(os.getpid(), signal.SIGTERM)")


def cascade(dtrun):
    """Rank 1 closes its connection, and comes to its own end only after rank 0 has failed of that."""
    expect("who only lost a connection is not to blame",
           r"rank 1 raised an exception at train\.py:14: KeyError: 'labels'; a retry seldom helps",
           dtrun, ("--nproc-per-node", "2"),
           "import socket\n"
           "path = os.path.dirname(__file__) + '/meet'\n"
           "if rank == 0:\n"
           "    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()\n"
           "    if not s.accept()[0].recv(1):\n"
           "        raise ConnectionResetError('Connection reset by peer')\n"
           "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
           "while not os.path.exists(path): pass\n"
           "s = socket.socket(socket.AF_UNIX)\n"
           "while s.connect_ex(path): pass\n"
           "try:\n"
           "    {}['labels']\n"
           "finally:\n"
           "    s.close(); signal.sigwait({signal.SIGTERM})")


def retries(dtrun):
    """How often a program is started that is allowed three restarts."""
    rows = [
        ("an argument that the script does not take", "import argparse; argparse.ArgumentParser().parse_args(['-x'])", (), 1),
        ("the same exception at the same place", "{}['x']", (), 2),
        ("the same exception with another number", "{}[os.getpid()]", (), 2),
        ("another exception each time", "{}[chr(97 + int(os.environ['TORCHELASTIC_RESTART_COUNT']))]", (), 4),
        ("another place each time", "exec(compile('\\n' * int(os.environ['TORCHELASTIC_RESTART_COUNT']) + '{}[0]', 'x.py', 'exec'))", (), 4),
        ("what may be anything", "raise RuntimeError('not today')", (), 4),
        ("the same exception, and --retry-deterministic", "{}['x']", ("--retry-deterministic",), 4),
    ]
    for name, script, options, wanted in rows:
        def run(script=script, options=options, wanted=wanted):
            status, err = job(dtrun, ("--max-restarts", "3", *options),
                              "print('started', file=sys.stderr)\n" + script)
            tap.check_equal(len(re.findall("^started$", err, re.MULTILINE)), wanted, "how often it was started")
            line_of(err)
            tap.check_equal("--retry-deterministic" in err, wanted < 4, "what undoes it is said")

        tap.case("how often: " + name, run)


def disk(dtrun):
    """The disk of the logs is full, so that not even the traceback can be written."""
    folder = tempfile.mkdtemp()
    own = ["unshare", "--map-root-user", "--mount"] if os.geteuid() else ["unshare", "--mount"]
    mount = "mount -t tmpfs -o size=64k none '%s' && exec \"$@\"" % folder
    wrap = [*own, "sh", "-c", mount, "sh"]
    if subprocess.run([*wrap, "true"], stderr=subprocess.DEVNULL).returncode:
        raise tap.Skip("no file system can be mounted here")
    status, err = job(dtrun, ("--log-dir", folder, "-r", "3"),
                      "while True: print('x' * 4000)", wrap=wrap)
    line = line_of(err)
    if not re.match(r"rank 0 met a full disk( at train\.py:3)?: .*; free some space first", line):
        raise AssertionError(line)


def torch_cascade(dtrun):
    try:
        import torch  # noqa: F401
    except ImportError:
        raise tap.Skip("python3-torch is not installed")
    status, err = job(dtrun, ("--nproc-per-node", "2"),
                      "import torch, torch.distributed as dist\n"
                      "dist.init_process_group('gloo')\n"
                      "t = torch.ones(4)\n"
                      "dist.all_reduce(t)\n"
                      "if rank == 1:\n"
                      "    torch.ones(8, 4) @ torch.ones(8, 4)\n"
                      "dist.all_reduce(t)\n"
                      "dist.all_reduce(t)")
    line = line_of(err)
    pattern = r"rank 1 raised an exception at train\.py:8: RuntimeError: mat1 and mat2 shapes cannot.*"
    if not re.fullmatch(pattern, line):
        raise AssertionError(line + "; all: " + err[-3000:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", metavar="COMMAND")
    dtrun = parser.parse_args().dtrun
    tap.start()
    mistakes(dtrun)
    signals(dtrun)
    cascade(dtrun)
    retries(dtrun)
    tap.case("a full disk", lambda: disk(dtrun))
    tap.case("of two ranks of PyTorch the one that raised", lambda: torch_cascade(dtrun))
    tap.done()


if __name__ == "__main__":
    main()
