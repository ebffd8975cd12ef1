# SPDX-License-Identifier: Apache-2.0
#
# Jobs of several agents of which some are killed with all their workers. Nothing is ever saved on the disk: what the others
# go on from is in memory, their own and the copies that they keep of the dead.

import re
import signal

import tap
import training

CONF = "keep_alive_interval=1,last_call_timeout=60,join_timeout=60"
# Small steps: with large ones the last bits of a sum over other ranks grow until they can be seen.
SMALL = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-5}}}
STEPS = training.LONG


class Job:
    def __init__(self, s, config, nnodes, *options):
        self.s, self.config, self.nnodes, self.options = s, config, nnodes, options
        daemon = s.start_words([s.tools.rendezvous, "--listen", "127.0.0.1:0"])
        self.endpoint = daemon.expect(r"listening on (127\.0\.0\.1:\d+)").group(1)
        self.agents, self.back, self.heard = [], [], {}

    def agent(self, ranks=2, within=()):
        """One more. WITHIN: a program that starts it, with its arguments."""
        tools = self.s.tools
        agent = self.s.start_words([
            *within, tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-id", "job",
            "--rdzv-conf", CONF, "--nnodes", self.nnodes, "--nproc-per-node", str(ranks), *self.options,
            "--no-python", tools.train, "--config", self.config])
        self.agents.append(agent)
        return agent

    def told(self):
        """The steps that were told, of all agents, as often as they were."""
        return sorted(int(n) for a in self.agents for line in a.lines for n in re.findall(r"\bstep (\d+)/", line))

    def await_step(self, step):
        training.wait_for(lambda: step in self.told(), "step %d" % step)

    def kill(self, agent):
        """With its workers, which its guard does not leave alive. The last step that was told by then."""
        self.heard = {a: len(a.lines) for a in self.agents}
        agent.kill()
        tap.check_equal(agent.end(), -9, "exit status of an agent that was killed")
        return self.told()[-1]

    def came_back(self, agents, last, sources):
        """One of AGENTS has rank 0 now, and says so: behind step LAST, or one that was done and not told yet."""
        pattern = r"^back at step (\d+)[^:]*: (.*)"
        found = []

        def is_said():
            # Since the last kill: whoever has rank 0 now may have had it before, and told of an earlier comeback.
            found[:] = [m for a in agents for m in (re.search(pattern, line) for line in a.lines[self.heard.get(a, 0):]) if m]
            return found

        training.wait_for(is_said, "a comeback")
        said = found[-1]
        step = int(said.group(1))
        self.back.append(step)
        if not last <= step <= last + 1:
            raise AssertionError("step %d was told, and the others are back at step %d" % (last, step))
        tap.check_equal(re.search(sources, said.group(2)) is not None, True, "%r in %r" % (sources, said.group(0)))

    def ended(self, agents):
        for agent in agents:
            status = agent.end()
            tap.check_equal(status, 0, "exit status; it said\n%s\n" % "\n".join(agent.lines))
        told = self.told()
        tap.check_equal(sorted(set(told)), list(range(1, STEPS + 1)), "steps that were told")
        # Who has rank 0 now does not know what a rank 0 that died with its agent had told last.
        again = [step for step in set(told) if told.count(step) > 1]
        tap.check_equal(set(again) <= set(self.back), True, "%r, told twice, are those behind which a world began, %r" % (again, self.back))


def unbroken(s, nnodes, agents, **config):
    c = s.config("unbroken.json", steps=STEPS, vault_every=1, **config)
    job = Job(s, c, nnodes)
    for _ in range(agents):
        job.agent()
    job.ended(job.agents)
    return s.losses(c)


@training.story
def fewer(s):
    """an agent of two is killed: the other goes on alone behind the last step, with the batch that was"""
    wanted = unbroken(s, "2", 2, stage=2, **SMALL)
    c = s.config(stage=2, steps=STEPS, vault_every=1, **SMALL)
    job = Job(s, c, "1:2")
    first, second = job.agent(), job.agent()
    job.await_step(STEPS // 4)
    last = job.kill(second)
    job.came_back([first], last, r"copies on node \d")
    job.ended([first])
    training.close(s.losses(c), wanted, 1e-5, "with an agent that was killed, against a run without")


@training.story
def spare(s):
    """an agent is killed and a spare takes its seat: the losses are those of a run without a failure, to the bit"""
    for stage in (0, 3):
        wanted = unbroken(s, "2", 2, stage=stage)
        c = s.config("spare%d.json" % stage, stage=stage, steps=STEPS, vault_every=1)
        job = Job(s, c, "2", "--spares", "1")
        first, second = job.agent(), job.agent()
        job.await_step(1)
        third = job.agent()
        third.expect(r"stands by as a spare")
        job.await_step(STEPS // 4)
        last = job.kill(second)
        job.came_back([first, third], last, r"copies on node \d")
        job.ended([first, third])
        tap.check_equal(s.losses(c), wanted, "losses at stage %d" % stage)


@training.story
def one_after_the_other(s):
    """of three agents first one is killed, then another: the last has all that is left"""
    c = s.config(stage=1, steps=STEPS, vault_every=1, **SMALL)
    job = Job(s, c, "1:3")
    agents = [job.agent() for _ in range(3)]
    job.await_step(STEPS // 4)
    last = job.kill(agents[1])
    left = [agents[0], agents[2]]
    job.came_back(left, last, r"copies on node \d")
    job.await_step(STEPS // 2)
    last = job.kill(agents[0])
    job.came_back([agents[2]], last, r"copies on node \d")
    job.ended([agents[2]])


@training.story
def uneven(s):
    """a node with one rank keeps the copies of both ranks of the other, which is killed"""
    c = s.config(stage=2, steps=STEPS, vault_every=1, **SMALL)
    job = Job(s, c, "1:2")
    two, one = job.agent(), job.agent(ranks=1)
    job.await_step(STEPS // 4)
    last = job.kill(two)
    job.came_back([one], last, r"copies on node 0")
    job.ended([one])


def await_rescue(agents):
    """The step that one of AGENTS has saved while it waits for other nodes."""
    pattern = r"^dtrun-train: step (\d+) is saved in "
    training.wait_for(lambda: any(a.says(pattern) for a in agents), "a checkpoint of what is in memory")
    return max(int(m.group(1)) for a in agents for m in (re.search(pattern, line) for line in a.lines) if m)


@training.story
def too_few_have_all(s):
    """where too few nodes are left the last step is saved at once, and when others join the job goes on from memory"""
    c = s.config(stage=2, steps=STEPS, vault_every=1, save_dir=s.path("ckpt"))
    job = Job(s, c, "2")
    first, second = job.agent(), job.agent()
    job.await_step(STEPS // 4)
    last = job.kill(second)
    step = await_rescue([first])
    tap.check_equal(last <= step <= last + 1, True, "step %d was told, step %d is saved" % (last, step))
    third = job.agent()
    job.came_back([first, third], last, r"copies on node \d")
    job.ended([first, third])


@training.story
def too_few_save_together(s):
    """nodes of which none has every shard save the last step together, and another job goes on from there"""
    c = s.config(stage=1, steps=STEPS, vault_every=1, save_dir=s.path("ckpt"), **SMALL)
    job = Job(s, c, "3")
    agents = [job.agent() for _ in range(3)]
    job.await_step(STEPS // 4)
    last = job.kill(agents[1])
    step = await_rescue([agents[0], agents[2]])
    tap.check_equal(last <= step <= last + 1, True, "step %d was told, step %d is saved" % (last, step))
    for agent in agents[0], agents[2]:
        agent.kill(signal.SIGTERM)
        agent.end()
    s.run(s.config("more.json", stage=1, steps=step + 2, save_dir=s.path("ckpt"), **SMALL)).expect(r"^resumed from .*: step %d$" % step)


@training.story
def no_room(s):
    """a copy that finds no room ends copies, which is said once, and the run goes on"""
    c = s.config(steps=STEPS, vault="peer", vault_every=1)
    job = Job(s, c, "2")
    # A file of copies holds the second image behind its second TiB.
    within = ("prlimit", "--fsize=%d" % (3 << 39))
    job.agent(within=within)
    job.agent(ranks=1, within=within)
    job.ended(job.agents)
    said = [line for a in job.agents for line in a.lines if "copies of the vault" in line]
    tap.check_equal(len(said), 1, "sentences of copies")
    tap.check_equal("no further copies of the vault are made on other nodes in this round: " in said[0], True, said[0])


training.main()
