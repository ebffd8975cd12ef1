# SPDX-License-Identifier: Apache-2.0
#
# hang_incidents.py --dtrun PROGRAM [--part firsts|others] [NAME...]: scripts that train with PyTorch's gloo and have one broken
# line. The terminal says which rank stands where, and of which class the hang is. Jobs that only take their time are left alone.
# A part is the first incident of each class and what is nobody's fault, or all other incidents.

import argparse
import concurrent.futures
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
from hang_scripts import HEAD, INCIDENTS, QUIET, SOON

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
JOBS = 4  # at a time: they wait more than they compute


class Job:
    def __init__(self, program, body, ranks, options=()):
        self.folder = tempfile.mkdtemp(dir=os.environ["TMPDIR"])
        self.script = os.path.join(self.folder, "train.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(HEAD + "def main():" + body + "\n\nmain()\n")
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


def check_told(job, row):
    """One line names the rank first, and where it stands; the evidence says the same."""
    path = job.program.expect(r"what each worker does is in (\S+)", 60).group(1)
    with open(path, encoding="utf-8") as f:
        verdict = json.load(f)
    sentence = verdict["sentence"]
    tap.check_equal(verdict["class"], row.kind, "class; it said\n%s\n" % job.text())
    said = [line for line in job.program.lines if sentence in line]
    tap.check_equal(len(said), 1, "lines with the sentence\n%s\n" % job.text())
    if row.culprit is None:
        tap.check_equal(verdict["guilty"], False, "somebody is guilty: " + sentence)
    else:
        first = re.search(r" has stood still for [^:]+: (rank [0-9]+) ", sentence)
        tap.check_equal(first and first.group(1), "rank %d" % row.culprit, "the culprit of " + sentence)
    here = job.line_of("# HERE")
    if here:
        tap.check_equal("train.py:%d" % here in sentence, True, "line %d in %s" % (here, sentence))
    tap.check_equal(bool(re.search(row.says, sentence)), True, "%r in %s" % (row.says, sentence))
    tap.check_equal(os.path.exists(os.path.join(os.path.dirname(path), "stacks.txt")), True, "stacks.txt is there")


def has_terminals():
    try:
        for fd in os.openpty():
            os.close(fd)
        return True
    except OSError:
        return False


def incident(program, row):
    if "openpty" in row.body and not has_terminals():
        raise tap.Skip("no pseudo-terminal can be made here")
    if row.until and VERSION >= row.until:
        raise tap.Skip("PyTorch %s does not hang there" % torch.__version__)
    job = Job(program, row.body, row.ranks, row.options)
    try:
        check_told(job, row)
    finally:
        job.program.kill(signal.SIGTERM)
        job.program.end(60)


# PyTorch 2.6 aborts now and then as it ends, behind all that the script does.
ABORTS = "terminate called without an active exception"


def end_well(job):
    status = job.program.end(120)
    if status != 0 and ABORTS not in job.text():
        raise AssertionError("exit status %d; it said\n%s" % (status, job.text()))


def quiet(program, body, ranks):
    job = Job(program, body, ranks)
    end_well(job)
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
    end_well(job)
    tap.check_equal(len(job.verdicts()), 1, "verdicts of attempt 0")


def split(incidents):
    """The first incident of each class, and the others."""
    firsts = {}
    for name, row in incidents.items():
        firsts.setdefault(row.kind, name)
    return ({name: row for name, row in incidents.items() if firsts[row.kind] == name},
            {name: row for name, row in incidents.items() if firsts[row.kind] != name})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    parser.add_argument("--part", choices=["firsts", "others"])
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    tap.start(limit=580)
    tap.comment("PyTorch %s" % torch.__version__)

    def wanted(table, part):
        in_part = args.part in (None, part)
        return [(name, row) for name, row in table.items() if (name in args.only if args.only else in_part)]

    firsts, others = split(INCIDENTS)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        cases = [("nobody is blamed: " + name, pool.submit(quiet, args.dtrun, *row)) for name, row in wanted(QUIET, "firsts")]
        rows = wanted(firsts, "firsts") + wanted(others, "others")
        cases += [(name, pool.submit(incident, args.dtrun, row)) for name, row in rows]
        if not args.only and args.part != "others":
            cases.append(("a job that hangs once goes on after a restart", pool.submit(restarted, args.dtrun)))
        for name, future in cases:
            tap.case(name, future.result)
    tap.done()


if __name__ == "__main__":
    main()
