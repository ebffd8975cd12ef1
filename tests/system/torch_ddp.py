# SPDX-License-Identifier: Apache-2.0
#
# torch_ddp.py --dtrun PROGRAM: PyTorch workers train under dtrun: data parallel over gloo, a crash
# in the middle, the restart, and the same losses in the end as without the crash.

import argparse
import os
import re
import subprocess
import sys
import tempfile

import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(TOP, "examples", "train_ddp.py")


class Dtrun:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def run(self, *args, expect=0):
        """Standard output and standard error of a job."""
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
        env = dict(os.environ, PATH=path, LOGLEVEL="INFO", TMPDIR=self.folder)
        job = subprocess.run(
            [self.program] + list(args), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, preexec_fn=tap.die_with_parent)
        if job.returncode != expect:
            tap.comment(job.stdout)
            tap.comment(job.stderr)
        tap.check_equal(job.returncode, expect, "exit status")
        return job.stdout, job.stderr


def last_loss(out):
    found = re.findall(r"step 19 of 20 on 2 ranks: loss ([0-9.]+)", out)
    tap.check_equal(len(found), 1, "lines with the last loss")
    return found[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    program = parser.parse_args().dtrun
    tap.start()
    tap.comment("PyTorch %s" % torch.__version__)
    folder = tempfile.TemporaryDirectory()
    dtrun = Dtrun(program, folder.name)

    def train(name, *options, script=()):
        path = os.path.join(folder.name, name + ".pt")
        return dtrun.run("--nproc-per-node", "2", *options, SCRIPT, "--checkpoint", path, *script)

    losses = {}

    def undisturbed():
        out, _ = train("undisturbed", "--standalone")
        losses["undisturbed"] = last_loss(out)

    def crashed():
        out, err = train("crashed", "--max-restarts", "1", script=("--crash-at", "12"))
        tap.check_equal(re.findall(r"attempt \d, step +(?:0|12)", out),
                        ["attempt 0, step  0", "attempt 1, step 12"], "beginnings")
        tap.check_equal("restart 1 of 1" in err, True, "the restart is told")
        tap.check_equal(last_loss(out), losses["undisturbed"], "the last loss")

    def reported():
        path = os.path.join(folder.name, "reported.pt")
        _, err = dtrun.run("--nproc-per-node", "2", SCRIPT, "--checkpoint", path, "--crash-at", "3",
                           expect=1)
        report = err[err.index("ChildFailedError:"):]
        tap.check_equal("train_ddp.py FAILED" in report, True, "the title")
        root = report[report.index("Root Cause"):]
        tap.check_equal("rank 1 fails at step 3, as asked" in root, True, "the root cause")
        tap.check_equal("  rank      : 1 (local_rank: 1)" in root, True, "the rank")

    def uploaded():
        saves, copies = os.path.join(folder.name, "saves"), os.path.join(folder.name, "copies")
        os.mkdir(saves)
        dtrun.run("--nproc-per-node", "2", "--upload", "%s=file://%s" % (saves, copies), "--upload-after", "200ms",
                  SCRIPT, "--checkpoint", os.path.join(saves, "last.pt"))
        tap.check_equal(os.listdir(copies), os.listdir(saves), "copies")
        with open(os.path.join(saves, "last.pt"), "rb") as one, open(os.path.join(copies, "last.pt"), "rb") as other:
            tap.check_equal(one.read() == other.read(), True, "the copy has the same bytes")
        tap.check_equal(type(torch.load(os.path.join(copies, "last.pt"))), dict, "what is in the copy")

    tap.case("two ranks train", undisturbed)
    tap.case("a crash, a restart, the same loss", crashed)
    tap.case("without a restart the report shows the traceback", reported)
    tap.case("what torch.save writes is uploaded when it is complete", uploaded)
    tap.done()


if __name__ == "__main__":
    main()
