# SPDX-License-Identifier: Apache-2.0
#
# dtrun-train on several hosts that are network namespaces: the same losses as on one, and going on when a host dies or is
# cut off.

import json
import os
import re
import signal
import subprocess

import netns
import tap
import training

CONF = "keep_alive_interval=1,last_call_timeout=60,join_timeout=60"


def cluster_of(hosts):
    why = netns.why_not()
    if why:
        raise tap.Skip(why)
    return netns.Cluster(hosts)


def start(s, cluster, host, c, nnodes, *options, run="job", at=0, env=None):
    """dtrun on that host with two ranks of dtrun-train; the first one serves the rendezvous."""
    return cluster[host].run(
        s.tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "%s:29400" % cluster[at].address, "--rdzv-id", run,
        "--rdzv-conf", CONF, "--nnodes", nnodes, "--nproc-per-node", 2, *options, "--no-python", s.tools.train, "--config", c,
        env={"OMP_NUM_THREADS": "1", **(env or {})})


def together(s, cluster, c, run, env=None):
    programs = [start(s, cluster, host, c, "2", run=run, env=env) for host in (0, 1)]
    for program in programs:
        status = program.end()
        tap.check_equal(status, 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    return programs


@training.story
def same_losses(s):
    """two hosts of two ranks: the losses of four ranks on one host, at every stage; the same bits from stage to stage"""
    with cluster_of(2) as cluster:
        by_stage = []
        for stage in (0, 1, 2, 3):
            near = s.config("near%d.json" % stage, stage=stage, accumulation=1)
            s.run(near, world=4)
            far = s.config("far%d.json" % stage, stage=stage, accumulation=1)
            programs = together(s, cluster, far, "stage%d" % stage)
            tap.check_equal(any(p.says(r"4 ranks on 2 hosts, ZeRO stage %d" % stage) for p in programs), True, "4 ranks on 2 hosts")
            training.close(s.losses(far), s.losses(near), 1e-5, "two hosts against one, stage %d" % stage)
            by_stage.append(s.losses(far))
            tap.check_equal(by_stage[-1], by_stage[0], "losses on two hosts of stage %d and 0" % stage)


@training.story
def preferences(s):
    """pairs of answers at stage 3 on two hosts, where the frozen model is gathered too: the losses of one host"""
    with cluster_of(2) as cluster:
        model = dict(training.LLAMA, max_position_embeddings=80)
        s.run(s.config("base.json", model=model, steps=1, save_dir=s.path("base")), world=1)
        for lora in ({"lora": {"r": 2, "dropout": 0.1}}, {}):
            both = []
            for name in ("near", "far"):
                c = s.config(name + ".json", model=model, stage=3, batch=8, accumulation=2, steps=4, dpo={}, data=training.pairs(s),
                             **lora, zero_optimization={"stage": 3, "stage3_param_persistence_threshold": 0})
                with open(c, encoding="utf-8") as f:
                    whole = json.load(f)
                whole["model"]["weights"] = s.path("base")
                with open(c, "w", encoding="utf-8") as f:
                    json.dump(whole, f)
                if name == "near":
                    s.run(c, world=4)
                else:
                    together(s, cluster, c, "dpo%d" % len(lora))
                both.append(s.losses(c))
            training.close(both[1], both[0], 1e-5, "two hosts against one, with %r" % lora)


@training.story
def same_losses_over_ucx(s):
    """the same over UCX: the bits that TCP gave, at every stage"""
    if not os.path.exists(os.path.join(os.path.dirname(s.tools.dtrun), "..", "worker_runtime", "coll", "dt_ucx.so")):
        raise tap.Skip("dt_ucx.so was not built: UCX is missing (package libucx-dev)")
    with cluster_of(2) as cluster:
        for stage in (0, 1, 2, 3):
            losses = {}
            for wire in ("tcp", "ucx"):
                c = s.config("%s%d.json" % (wire, stage), stage=stage, accumulation=1)
                # UCX would otherwise also try the host's shared memory, which two hosts do not have. The last is for a
                # build with LeakSanitizer: ucx.supp says why.
                together(s, cluster, c, "%s%d" % (wire, stage), env={
                    "DTRUN_WIRE": wire, "UCX_TLS": "tcp,self",
                    "LSAN_OPTIONS": "use_tls=0:suppressions=" + os.path.join(training.TOP, "tests", "runtime", "ucx.supp")})
                losses[wire] = s.losses(c)
            tap.check_equal(losses["ucx"], losses["tcp"], "losses over UCX and over TCP, stage %d" % stage)


@training.story
def preempted(s):
    """without a vault, SIGTERM to one of three hosts: all save the step at hand, and the other two go on from it"""
    with cluster_of(3) as cluster:
        c = s.config(steps=100000, save_every=100000, save_dir=s.path("ckpt"), vault="off")
        programs = [start(s, cluster, host, c, "2:3") for host in range(3)]
        programs[0].expect(r"step 10/")
        programs[1].kill(signal.SIGTERM)
        tap.check_equal(programs[1].end(), 1, "exit status; it said\n%s\n" % "\n".join(programs[1].lines))
        step = int(programs[0].expect(r"resumed from .*: step (\d+)").group(1))
        programs[0].expect(r"step %d/" % (step + 1))
        tap.check_equal(any("is not saved" in line for p in programs for line in p.lines), False, "a save was dropped")
        for host in (0, 2):
            programs[host].kill(signal.SIGTERM)
        for host in (0, 2):
            programs[host].end()
        tap.check_equal(sorted(s.steps(c)), list(range(1, max(s.steps(c)) + 1)), "steps, each made once")


@training.story
def host_killed(s):
    """without a vault, a host whose processes are all killed: the other goes on alone from the checkpoint, with the batch that was"""
    # Small steps: with large ones the last bits of a sum over other ranks grow in a few hundred steps to what can be seen.
    small = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-5}}}
    whole = s.config("whole.json", stage=2, steps=400, **small)
    s.run(whole, world=2)
    with cluster_of(3) as cluster:
        c = s.config("killed.json", stage=2, steps=400, save_every=10, save_dir=s.path("ckpt"), vault="off", **small)
        survivor = lost(s, cluster, c, lambda: kill_all(cluster[1]))
        survivor.expect(r"2 ranks on 1 host, ZeRO stage 2")
        survivor.expect(r"batch 12 = micro 6 x accumulation 1 x 2")
        survivor.expect(r"resumed from .*: step \d+")
        tap.check_equal(survivor.end(), 0, "exit status")
    training.close(s.losses(c), s.losses(whole), 1e-5, "with a host that was killed, against one host alone")
    tap.check_equal([row["samples"] for _, row in sorted(s.steps(c).items())], [12 * (i + 1) for i in range(400)], "samples")


@training.story
def link_cut(s):
    """a host that is cut off: the others' ranks end with a sentence that names a rank of it, and the job goes on with copies of theirs"""
    with cluster_of(3) as cluster:
        c = s.config("cut.json", stage=3, steps=400, save_every=10, save_dir=s.path("ckpt"), collective_timeout=5, vault_every=1)
        survivor = lost(s, cluster, c, cluster[1].cut)
        survivor.expect(r"dtrun-train: rank \d: step \d+: .*\brank \d")
        survivor.expect(r"^back at step \d+.*: .* copies on node 0")
        tap.check_equal(survivor.end(), 0, "exit status; it said\n" + "\n".join(survivor.lines))


def kill_all(host):
    pids = subprocess.run(["ip", "netns", "pids", host.space], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)


def lost(s, cluster, c, happens):
    """Two hosts train, a third one holds the rendezvous. When they have saved, HAPPENS to host 1. Returns host 0's dtrun."""
    cluster[2].run(s.tools.rendezvous, "--listen", "*:29400").expect(r"listening on ")
    survivor, other = [start(s, cluster, host, c, "1:2", "--max-restarts", "3", at=2) for host in (0, 1)]
    training.wait_for(lambda: any(p.says(r"4 ranks on 2 hosts") for p in (survivor, other)), "a world of 4")
    before = set(s.checkpoints(s.path("ckpt"))) if os.path.exists(s.path("ckpt")) else set()
    training.wait_for(lambda: os.path.exists(s.path("ckpt")) and set(s.checkpoints(s.path("ckpt"))) - before, "a checkpoint of it")
    survivor.forget()
    happens()
    return survivor


def saved(folder):
    """What `latest` names, and the round of the world that saved it; (0, -1) where there is none yet."""
    for _ in range(100):
        try:
            with open(os.path.join(folder, "latest"), encoding="utf-8") as f:
                name = f.read().strip()
            with open(os.path.join(folder, name, "state.json"), encoding="utf-8") as f:
                return int(name[len("step-"):]), json.load(f)["round"]
        except FileNotFoundError:
            pass  # a moment ago it was another one
    return 0, -1


@training.story
def cut_world(s):
    """two hosts that are cut off from the rendezvous together: their world trains on, and leaves its successor's latest alone"""
    ckpt = s.path("ckpt")
    with cluster_of(4) as cluster:
        daemon = cluster[2].run(s.tools.rendezvous, "--listen", "*:29400")
        daemon.expect(r"listening on ")
        c = s.config(steps=1000000, save_every=10, save_dir=ckpt)
        old = [start(s, cluster, host, c, "2", at=2) for host in (0, 1)]
        training.wait_for(lambda: saved(ckpt)[1] == 0, "a checkpoint of round 0")
        new = [start(s, cluster, host, c, "2", at=2) for host in (2, 3)]
        for program in new:
            program.expect(r"stands by as a spare")
        for host in (0, 1):
            cluster[host].cut_from(cluster[2], cluster[3])
        training.wait_for(lambda: saved(ckpt)[1] == 1, "a checkpoint of round 1")
        first, refused = saved(ckpt)[0], r"is not saved: rank 0: .*another world of this run, of round 1, saves in "
        training.wait_for(lambda: any(p.says(refused) for p in old), "a checkpoint of round 0 that is dropped")
        # Both save on, each some times.
        for program in old:
            program.forget()
        rounds = set()

        def both_went_on():
            step, of_round = saved(ckpt)
            rounds.add(of_round)
            dropped = sum(bool(re.search(refused, line)) for p in old for line in p.lines)
            return step >= first + 100 and dropped >= 10

        training.wait_for(both_went_on, "ten saves of each world")
        tap.check_equal(rounds, {1}, "rounds that latest was of since round 1 first saved")
        for program in old + new:
            tap.check_equal(program.popen.poll(), None, "exit status of %s" % program.name)


@training.story
def daemon_away(s):
    """what is saved while the daemon is away becomes latest when it is back; training does not wait for it"""
    ckpt, every = s.path("ckpt"), 1000
    serve = (s.tools.rendezvous, "--listen", "*:29400", "--state-dir", s.path("state"))
    with cluster_of(1) as cluster:
        daemon = cluster[0].run(*serve)
        daemon.expect(r"listening on ")
        tiny = {**training.GPT2, "n_layer": 1, "n_embd": 12, "n_positions": 8}
        c = s.config(model=tiny, batch=2, steps=1000000, save_every=every, save_dir=ckpt)
        program = start(s, cluster, 0, c, "1")
        training.wait_for(lambda: saved(ckpt)[0] == every, "the first checkpoint")
        daemon.kill()
        program.expect(r"connecting again, workers run on")
        # Two threads say these: a step of this model takes so little time that either line may be the first.
        training.wait_for(lambda: program.says(r"step %d is written and waits, as dtrun does not hear of the rendezvous" % (2 * every)),
                          "a checkpoint that waits")
        training.wait_for(lambda: program.says(r"step %d/" % (2 * every + every // 10)), "training that goes on")
        step = saved(ckpt)[0]
        if not program.says(r"step %d/" % (3 * every)):  # then it would have gone by the folder
            tap.check_equal(step, every, "step of latest while the daemon is away")
        cluster[0].run(*serve).expect(r"listening on ")
        training.wait_for(lambda: saved(ckpt)[0] >= 2 * every, "the checkpoint that waited")
        tap.check_equal(any("is not saved" in line for line in program.lines), False, "a save was dropped")


@training.story
def no_wire(s):
    """a wire that is not there is refused with what to install"""
    os.mkdir(s.path("plugins"))
    c = s.config(steps=2)
    with cluster_of(2) as cluster:
        programs = [start(s, cluster, host, c, "2", env={"DTRUN_WIRE": "ucx", "DTRUN_PLUGIN_DIR": s.path("plugins")}) for host in (0, 1)]
        for program in programs:
            program.expect(r"rank \d: .*DTRUN_WIRE=ucx needs UCX \(Debian: libucx0\) and dtrun's helper library dt_ucx\.so")
            tap.check_equal(program.end() != 0, True, "exit status is one of failure")


training.main()
