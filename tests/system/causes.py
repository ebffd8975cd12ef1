# SPDX-License-Identifier: Apache-2.0
#
# causes.py --dtrun COMMAND: jobs of one node that fail for real, and the one sentence below torchrun's
# report that says why.

import argparse
import glob
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

import tap

SCRIPT = """import os, signal, sys
rank = int(os.environ["RANK"])
%s
"""

# Rank 1 closes its connection, and comes to its own end only after rank 0 has failed of that.
CASCADE = """import socket
path = os.path.dirname(__file__) + '/meet'
if rank == 0:
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
    if not s.accept()[0].recv(1):
        raise ConnectionResetError('Connection reset by peer')
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
s = socket.socket(socket.AF_UNIX)
while s.connect_ex(path): pass
try:
    {}['labels']
finally:
    s.close(); signal.sigwait({signal.SIGTERM})"""

TORCH_CASCADE = """import torch, torch.distributed as dist
dist.init_process_group('gloo')
t = torch.ones(4)
dist.all_reduce(t)
if rank == 1:
    torch.ones(8, 4) @ torch.ones(8, 4)
dist.all_reduce(t)
dist.all_reduce(t)"""


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
    expect("who only lost a connection is not to blame",
           r"rank 1 raised an exception at train\.py:13: KeyError: 'labels'; a retry seldom helps",
           dtrun, ("--nproc-per-node", "2"), CASCADE)


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


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def two_nodes(dtrun, script, *options, count=2):
    """The standard error of each of so many agents of one job, and the folder of each one's logs."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "train.py")
    with open(path, "w") as f:
        f.write(SCRIPT % script)
    words = ["--nnodes", str(count), "--rdzv-backend", "c10d", "--rdzv-id", "job", "--rdzv-endpoint",
             "127.0.0.1:%d" % free_port(), *options]
    agents = []
    for n in range(count):
        more = ["--node-rank", str(n), "--node-name", "node%d" % n, "--log-dir", folder + "/%d" % n]
        agents.append(subprocess.Popen(
            [dtrun, *words, *more, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, "PYTHON_EXEC": sys.executable}, text=True,
            preexec_fn=tap.die_with_parent))
    return [agent.communicate()[1] for agent in agents], folder


def same_on_all(dtrun, script, pattern, *options):
    """The last line of each node, and what is kept of the round."""
    said, folder = two_nodes(dtrun, script, *options)
    for n, err in enumerate(said):
        found = re.findall("^root cause: (.*)$", err, re.MULTILINE)
        if len(found) != 1 or not re.fullmatch(pattern, found[0]):
            raise AssertionError("node%d: %r does not fit %r: %s" % (n, found, pattern, err[-3000:]))
        last = sorted(glob.glob(folder + "/%d/*/rounds/*.json" % n))[-1]
        with open(last) as f:
            kept = json.load(f)
        tap.check_equal(kept["cause"], found[0], "what is kept")
        tap.check_equal(kept["decided"], "the job ended", "what was decided")
    return said


def cascade_between_nodes(dtrun):
    same_on_all(dtrun, CASCADE,
                r"node1: rank 1 raised an exception at train\.py:13: KeyError: 'labels'; a retry .*")


def cause_of_each_round(dtrun):
    said = same_on_all(dtrun, "if rank == 1: {}[os.environ['TORCHELASTIC_RESTART_COUNT']]\n"
                       "signal.pause()",
                       r"node1: rank 1 raised an exception at train\.py:3: KeyError: '1'; .*",
                       "--max-restarts", "1", "--retry-deterministic")
    for err in said:
        if "root cause of the last round: node1: rank 1 raised an exception" not in err:
            raise AssertionError(err)


def torch_between_nodes(dtrun):
    try:
        import torch  # noqa: F401
    except ImportError:
        raise tap.Skip("python3-torch is not installed")
    same_on_all(dtrun, TORCH_CASCADE,
                r"node1: rank 1 raised an exception at train\.py:8: RuntimeError: mat1 and mat2 .*")


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
    status, err = job(dtrun, ("--nproc-per-node", "2"), TORCH_CASCADE)
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
    tap.case("both nodes name the one that failed first", lambda: cascade_between_nodes(dtrun))
    tap.case("each round has its cause", lambda: cause_of_each_round(dtrun))
    tap.case("PyTorch on two nodes", lambda: torch_between_nodes(dtrun))
    tap.case("a full disk", lambda: disk(dtrun))
    tap.case("of two ranks of PyTorch the one that raised", lambda: torch_cascade(dtrun))
    tap.done()


if __name__ == "__main__":
    main()
