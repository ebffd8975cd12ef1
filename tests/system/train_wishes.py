# SPDX-License-Identifier: Apache-2.0
#
# What a person wants of a run by dtrun-ctl, and what dtrun-train makes of it.

import subprocess

import servers
import tap
import training

SAVED = r"told to end: step (\d+), loss [\d.]+, saved in "


def wish(s, server, *words):
    subprocess.run([s.tools.ctl, "--endpoint", "127.0.0.1:%d" % server.port, "run", *words], check=True, stdout=subprocess.DEVNULL)


@training.story
def restarted_and_stopped(s):
    """run restart saves and goes on at the next step, at no charge; run stop saves, and ends the job"""
    c = s.config(steps=100000, stage=1, save_dir=s.path("ckpt"))
    with servers.daemon(s.tools.rendezvous) as server:
        program = s.start(c, world=2, dtrun=("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % server.port,
                                             "--rdzv-id", "wished", "--max-restarts", "0"))
        program.expect(r"step 5/")
        wish(s, server, "restart", "wished")
        saved = int(program.expect(SAVED).group(1))
        back = int(program.expect(r"(?:resumed from .*: step|back at step) (\d+)").group(1))
        tap.check_equal(back, saved, "the step that the new workers begin behind")
        program.expect(r"step %d/" % (saved + 2))
        wish(s, server, "stop", "wished", "--why", "a demo")
        saved = int(program.expect(SAVED).group(1))
        program.expect(r"the job is over: the job is stopped \(by .*: a demo\)")
        tap.check_equal(program.end(), 1, "exit status")
    tap.check_equal(s.checkpoints(s.path("ckpt"))[-1], "step-%08d" % saved, "the last checkpoint")
    numbers = sorted(s.steps(c))
    tap.check_equal(numbers, list(range(1, saved + 1)), "steps")


training.main()
