# SPDX-License-Identifier: Apache-2.0
#
# A node that is lost takes a job with a mesh to the next mesh that fits, and the losses are those of a run without the
# failure. Where no world was there before, a mesh that does not fit is refused.

import json
import signal

import tap
import training

FOUR = {**training.LLAMA, "num_hidden_layers": 4, "num_key_value_heads": 4}
MESH = {"tensor": 2, "pipeline": 2}
# Small steps: with large ones the last bits of sums in another order grow to what can be seen.
SMALL = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4}}}
SAYS = r"this world has 2 ranks, which cannot share tensors by 2 and layers by 2: (\w+) 2 from here on$"
REFUSED = r"parallel.pipeline: 2 does not divide what parallel.tensor leaves of the ranks, 1: give another --nproc-per-node"


def mesh(s, name, **more):
    return s.config(name, **{"model": FOUR, "batch": 8, "accumulation": 4, "parallel": MESH, **SMALL, **more})


def lose_one(nodes):
    """Kills the agent that does not serve the rendezvous, and with it its workers, behind step 10. Returns the other one."""
    first = nodes.speaker()
    first.expect(r"^a pipeline of 2 stages")
    first.expect(r"^step +10/")
    survivor, lost = nodes.agents
    survivor.forget()
    lost.kill(signal.SIGKILL)
    return survivor


@training.story
def goes_on_as_another_mesh(s):
    """2 x 2 ranks lose a node by kill -9: the two that are left go on from the checkpoint as another mesh, at each stage, with the steps that were"""
    steps = 2 * training.LONG
    whole = mesh(s, "whole.json", parallel={}, steps=steps)
    s.run(whole)
    for stage in (0, 1):
        c = mesh(s, "killed%d.json" % stage, stage=stage, steps=steps, save_every=5, save_dir=s.path("ckpt%d" % stage))
        survivor = lose_one(training.Nodes(s, c, "1:2", 2))
        survivor.expect(SAYS)
        survivor.expect(r"2 ranks on 1 host, ZeRO stage %d" % stage)
        survivor.expect(r"^batch 8 = ")
        survivor.expect(r"^resumed from .*: step [1-9]\d*$")
        tap.check_equal(survivor.end(), 0, "exit status; it said\n%s\n" % "\n".join(survivor.lines))
        training.close(s.losses(c), s.losses(whole), 1e-4, "with a node that was lost, stage %d" % stage)
        tap.check_equal([row["samples"] for _, row in sorted(s.steps(c).items())], [8 * (i + 1) for i in range(steps)], "samples")


@training.story
def batch_of_each_rank(s):
    """where a configuration has numbers of each rank alone, a step has the samples that it had in the first world"""
    c = mesh(s, "each.json", steps=2 * training.LONG, save_every=5, save_dir=s.path("ckpt"))
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    whole["train_micro_batch_size_per_gpu"] = 3
    del whole["train_batch_size"]
    with open(c, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    survivor = lose_one(training.Nodes(s, c, "1:2", 2))
    survivor.expect(SAYS)
    tap.check_equal(survivor.says(r"of no use"), False, "steps of the other mesh; it said\n%s\n" % "\n".join(survivor.lines))
    survivor.expect(r"^batch 12 = ")
    tap.check_equal(survivor.end(), 0, "exit status; it said\n%s\n" % "\n".join(survivor.lines))
    tap.check_equal({row["samples"] - 12 * step for step, row in s.steps(c).items()}, {0}, "samples beyond 12 a step")


@training.story
def before_a_checkpoint(s):
    """a job that saves nothing begins anew as another mesh: its ranks know that there was a world before, or their vaults do"""
    for number, (vault, options) in enumerate((("off", ()), ("auto", ("--keep-workers", "never")))):
        c = mesh(s, "unsaved%d.json" % number, steps=2 * training.LONG, vault=vault)
        survivor = lose_one(training.Nodes(s, c, "1:2", 2, *options))
        survivor.expect(SAYS)
        survivor.expect(r"^step +1/")
        tap.check_equal(survivor.end(), 0, "exit status; it said\n%s\n" % "\n".join(survivor.lines))


@training.story
def comes_back_as_configured(s):
    """when a node comes again, the configured mesh is taken again"""
    c = mesh(s, "grows.json", steps=1000000, save_every=10, save_dir=s.path("ckpt"))
    nodes = training.Nodes(s, c, "1:2", 2)
    survivor = lose_one(nodes)
    survivor.expect(SAYS)
    survivor.expect(r"^step +\d+/")
    survivor.forget()
    nodes.start(7)
    survivor.expect(r"4 ranks on 2 hosts")
    survivor.expect(r"^2 ranks share each block")
    survivor.expect(r"^a pipeline of 2 stages")
    survivor.expect(r"^resumed from .*: step \d+$")
    survivor.expect(r"^step +\d+/")
    tap.check_equal(survivor.says(r"of no use"), False, "steps of the other mesh; it said\n%s\n" % "\n".join(survivor.lines))


@training.story
def is_refused(s):
    """in a first world, be it tried again, and with parallel.elastic false in any, a mesh that does not fit ends the job by what is wrong"""
    c = mesh(s, "first.json", steps=8, save_dir=s.path("ckpt"))
    for options in ((), ("--max-restarts", "2", "--retry-deterministic")):
        program = s.start(c, world=2, dtrun=options)
        tap.check_equal(program.end() == 0, False, "ends well; it said\n%s\n" % "\n".join(program.lines))
        program.expect(REFUSED)
        tap.check_equal(program.says(r"this world has"), False, "another mesh; it said\n%s\n" % "\n".join(program.lines))
    c = mesh(s, "stays.json", steps=1000000, save_every=10, save_dir=s.path("stays"), parallel={**MESH, "elastic": False})
    survivor = lose_one(training.Nodes(s, c, "1:2", 2))
    survivor.expect(REFUSED)
    tap.check_equal(survivor.end() == 0, False, "ends well; it said\n%s\n" % "\n".join(survivor.lines))


training.main()
