# SPDX-License-Identifier: Apache-2.0
#
# dtrun-train on a GPU says what it says on a CPU. By the plugin that DTRUN_CUDA_PLUGIN names: the real one, or, with
# DT_EMULATED=1, the one that runs its kernels on a CPU, where ranks can have as many devices, and as little memory, as a
# story wants.

import math
import os
import re
import signal

import servers
import tap
import training
from gpus import emulated, gpus, why_not

# Small, as the emulator has to make it.
SIZE = {"batch": 4, "accumulation": 1}
HEADS_OF_64 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 2, "n_positions": 32, "vocab_size": 320}
DEEPSPEED_BF16 = {"bf16": {"enabled": True}}
IN_FOUR = {"accumulation": 4, "data_types": {"grad_accum_dtype": "fp32"}}


def on_both(s, name, env=None, world=1, **how):
    """Losses on the CPU and on the GPU."""
    losses = []
    for device in ("cpu", "cuda"):
        c = s.config("%s-%s.json" % (name, device), device=device, **{**SIZE, **how})
        program = s.run(c, world=world, env=env)
        if device == "cuda":
            tap.check_equal(program.says(r"\bGPU \d"), True, "a GPU in what it says of itself")
        losses.append(s.losses(c))
    return losses


@training.story
def conversations(s):
    """packed conversations: the losses of the CPU to 1e-4, for both families"""
    data = training.conversations(s)
    for name, model in (("gpt2", dict(training.GPT2, n_positions=64)), ("llama", dict(training.LLAMA, max_position_embeddings=64))):
        cpu, cuda = on_both(s, name, gpus(1), model=model, steps=3, **data)
        training.close(cuda, cpu, 1e-4, name)


@training.story
def floats(s):
    """20 steps in float: the losses of the CPU to 1e-4, for both families"""
    for name, model in (("gpt2", training.GPT2), ("llama", training.LLAMA)):
        cpu, cuda = on_both(s, name, gpus(1), model=model, steps=20)
        training.close(cuda, cpu, 1e-4, name)
        if not cuda[-1] < cuda[0] - 0.3:
            raise AssertionError("the model learned nothing: %r" % cuda)


@training.story
def halves(s):
    """8 steps in bfloat16, at once and as micro-batches that are added up in float: the losses of the CPU within 1 %"""
    for name, model, how in (("gpt2", HEADS_OF_64, {}), ("llama", training.LLAMA, IN_FOUR)):
        cpu, cuda = on_both(s, name, gpus(1), model=model, steps=8, **how, **DEEPSPEED_BF16)
        training.close(cuda, cpu, 0.01, name + " in bfloat16")


@training.story
def attention_by_cudnn(s):
    """where there is no cuDNN one line says so, and the losses are those of our own attention"""
    emulated()
    losses = []
    for by in ("own", "cudnn"):
        c = s.config("by-%s.json" % by, device="cuda", attention=by, model=HEADS_OF_64, steps=3, **SIZE, **DEEPSPEED_BF16)
        program = s.run(c, world=0, env=gpus(1))
        said = [line for line in program.lines if "own kernels" in line]
        tap.check_equal(len(said), by == "cudnn", "lines about it: %r" % said)
        losses.append(s.losses(c))
    tap.check_equal(said[0].endswith('train.attention "cudnn": attention is computed by dtrun\'s own kernels: a mock GPU has no cuDNN'), True,
                    "what the line says: %s" % said[0])
    tap.check_equal(losses[1], losses[0], "losses")


@training.story
def dropout(s):
    """what a GPT-2's branches give and its embedding are dropped as on the CPU, with validations, which drop nothing, in between"""
    drops = {"embd_pdrop": 0.1, "resid_pdrop": 0.2}
    more = {"data": {"train": s.data, "validation": s.data}, "validate_every": 2, "validation_batches": 1}
    for name, model, most, how in (("float", training.GPT2, 1e-4, {}), ("halves", HEADS_OF_64, 0.01, DEEPSPEED_BF16)):
        cpu, cuda = on_both(s, name, gpus(2), world=2, model={**model, **drops}, steps=5, **more, **how)
        training.close(cuda, cpu, most, name)


@training.story
def adapters(s):
    """adapters beside a frozen model, in full or in NF4, with dropout: in float the losses of the CPU, in bfloat16 within 1 %"""
    s.run(s.config("base.json", model=training.LLAMA, device="cpu", steps=2, save_dir=s.path("base"), **SIZE), world=1)
    for stage, kept, most, how in ((1, "full", 1e-4, {}), (3, "full", 0.01, DEEPSPEED_BF16), (1, "nf4", 1e-4, {}), (3, "nf4", 0.01, DEEPSPEED_BF16)):
        losses = []
        for device in ("cpu", "cuda"):
            c = s.config("%s%d.json" % (device, stage), model=training.LLAMA, device=device, stage=stage, steps=6,
                         lora={"r": 4, "dropout": 0.1, "base": kept}, **SIZE, **how)
            s.run(c, "--init-from", s.path("base"), world=2, env=gpus(2))
            losses.append(s.losses(c))
        training.close(losses[1], losses[0], most, "stage %d" % stage)


@training.story
def magnitudes(s):
    """adapters with magnitudes, of both families, one in NF4 and one with dropout and two ranks: the losses of the CPU, in bfloat16 within 1 %"""
    for name, model, stage, world, most, lora, how in (("llama", training.LLAMA, 1, 1, 1e-4, {"base": "nf4"}, {}),
                                                       ("gpt2", training.GPT2, 3, 2, 0.01, {"dropout": 0.1, "rank_pattern": {"h.0.attn.c_attn": 7}}, DEEPSPEED_BF16)):
        base = s.path("base-" + name)
        s.run(s.config("base.json", model=model, device="cpu", steps=2, save_dir=base, **SIZE), world=1)
        losses = []
        for device in ("cpu", "cuda"):
            c = s.config("%s-%s.json" % (name, device), model=model, device=device, stage=stage, steps=6,
                         lora={"r": 4, "use_dora": True, "plus_ratio": 100, **lora}, **SIZE, **how)
            s.run(c, "--init-from", base, world=world, env=gpus(world))
            losses.append(s.losses(c))
        training.close(losses[1], losses[0], most, name)


@training.story
def preferences(s):
    """pairs of answers: in float the losses and margins of the CPU, in bfloat16 within 2 %; the first loss is ln 2"""
    data = training.pairs(s, 12)
    model = dict(training.LLAMA, max_position_embeddings=80)
    s.run(s.config("base.json", model=model, device="cpu", steps=2, save_dir=s.path("base"), **SIZE), world=1)
    for most, how in ((1e-4, {}), (0.02, DEEPSPEED_BF16)):
        losses = []
        for device in ("cpu", "cuda"):
            c = s.config(device + ".json", model=model, device=device, steps=3, batch=2, validation_batches=1,
                         lora={"r": 4, "dropout": 0.1, "target_modules": ["q_proj", "down_proj"]}, dpo={"beta": 0.5}, data=data, **how)
            s.run(c, "--init-from", s.path("base"), world=1, env=gpus(1))
            losses.append(s.losses(c) + [1 + s.steps(c)[3]["reward_margin"]])
            training.close(losses[-1][:1], [math.log(2)], 1e-2 if how else 1e-5, "the first loss on " + device)
        training.close(losses[1], losses[0], most, "bfloat16" if how else "float")


@training.story
def odd_vocabularies(s):
    """rows of logits that a GPU pads: 325 and 323 words have the losses of the CPU, in float and in bfloat16"""
    models = {"gpt2": {**training.GPT2, "vocab_size": 325}, "llama": {**training.LLAMA, "vocab_size": 323}}
    for name, model in models.items():
        cpu, cuda = on_both(s, name, gpus(1), model=model, steps=6)
        training.close(cuda, cpu, 1e-4, name)
        cpu, cuda = on_both(s, name + "-bf16", gpus(1), model=model, steps=4, **DEEPSPEED_BF16)
        training.close(cuda, cpu, 0.01, name + " in bfloat16")


@training.story
def stages(s):
    """every stage has the same bits on a GPU, and every run of it"""
    first = None
    for stage in (0, 1, 2, 3, 0):
        c = s.config("c.json", model=training.LLAMA, stage=stage, device="cuda", batch=4, accumulation=2, steps=3, **DEEPSPEED_BF16)
        s.run(c, env=gpus(1))
        first = first or s.losses(c)
        tap.check_equal(s.losses(c), first, "losses of stage %d and 0" % stage)
        os.unlink(c + ".jsonl")


@training.story
def graphs(s):
    """what is told a GPU as one has the bits of what is told op by op: in two micro-steps, validation, and recomputed"""
    how = {"model": training.LLAMA, "device": "cuda", "batch": 4, "accumulation": 2, "steps": 5, **DEEPSPEED_BF16}
    for stage in (0, 3):
        losses = []
        for as_one in (True, False):
            c = s.config("graphs.json", stage=stage, cuda_graphs=as_one, activation_checkpointing={}, data={"validation": s.data}, validate_every=2, **how)
            s.run(c, world=1 if stage == 0 else 2, env=gpus(1 if stage == 0 else 2))
            losses.append(s.losses(c))
            os.unlink(c + ".jsonl")
        tap.check_equal(losses[0], losses[1], "losses of stage %d with CUDA graphs, and without" % stage)


@training.story
def ranks(s):
    """two ranks with a GPU each, at every stage: the losses of two ranks on a CPU; and prefetch, recomputing, 2 micro-steps; blocking and not, windows and not"""
    env = gpus(2)
    for stage in (0, 1, 2, 3):
        nccl = {"NCCL_COMM_BLOCKING": str(stage % 2), "DTRUN_NCCL_WINDOWS": str(stage // 2)}
        cpu, cuda = on_both(s, "stage%d" % stage, {**env, **nccl}, world=2, stage=stage, accumulation=2, steps=4, activation_checkpointing={})
        training.close(cuda, cpu, 1e-4, "two ranks, stage %d" % stage)


@training.story
def devices_change(s):
    """a checkpoint of a GPU goes on on a CPU, and the other way round"""
    whole = s.config("whole.json", steps=6, device="cpu", **SIZE)
    s.run(whole)
    for first, then in (("cpu", "cuda"), ("cuda", "cpu")):
        common = {"save_dir": s.path("from-" + first), "stage": 2}
        total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 6}}}
        a = s.config("a.json", steps=3, device=first, **total, **common, **SIZE)
        s.run(a, env=gpus(1))
        b = s.config("b.json", steps=6, device=then, **total, **common, **SIZE)
        s.run(b, env=gpus(1)).says(r"resumed from .*: step 3")
        training.close(s.losses(a) + s.losses(b), s.losses(whole), 1e-4, "%s, then %s" % (first, then))
        os.unlink(a + ".jsonl")
        os.unlink(b + ".jsonl")


@training.story
def snapshots(s):
    """a checkpoint has the state of its step, while steps that follow it have begun: runs that resume lose no bit"""
    # A mock GPU so does its work as late as it may: what should wait for a snapshot, and does not, is done before it.
    env = {**gpus(1), "DT_EMULATOR_LAZY": "60000"}
    total = {"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "total_num_steps": 4}}}
    for name, more in (("float", {}), ("bfloat16", DEEPSPEED_BF16)):
        how = {"steps": 4, "device": "cuda", "save_every": 1, "keep_last": 0, **total, **more, **SIZE}
        whole = s.config("whole.json", save_dir=s.path(name), **how)
        s.run(whole, env=env)
        for step in (1, 2, 3):
            c = s.config("again.json", save_dir=s.path("%s-from-%d" % (name, step)), **how)
            s.run(c, "--resume", s.path(name, "step-%08d" % step), env=env).says(r"resumed from .*: step %d" % step)
            tap.check_equal(s.losses(c), s.losses(whole)[step:], "losses of %s from step %d on" % (name, step))
            os.unlink(c + ".jsonl")
        os.unlink(whole + ".jsonl")


@training.story
def killed(s):
    """without a vault a rank on a GPU killed with -9 costs the steps since the last checkpoint, and no bit"""
    whole = s.config("whole.json", steps=12, device="cuda", **SIZE)
    s.run(whole, env=gpus(1))
    c = s.config("killed.json", steps=12, device="cuda", save_every=2, save_dir=s.path("ckpt"), vault="off", **SIZE)
    program = s.start(c, dtrun=("--max-restarts", "1"), env=gpus(1))
    training.wait_for(lambda: os.path.exists(s.path("ckpt", "latest")), "a checkpoint")
    os.kill(s.workers(program)[0], signal.SIGKILL)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    tap.check_equal(program.says(r"resumed from .*: step \d+"), True, "that it resumed")
    tap.check_equal(s.losses(c), s.losses(whole), "losses with a rank killed, and without")


@training.story
def kept(s):
    """a rank on a GPU killed with -9 costs no step where steps are kept, and no bit"""
    how = {"steps": 12, "device": "cuda", "vault_every": 1, **SIZE}
    whole, c = s.config("whole.json", **how), s.config("kept.json", **how)
    s.run(whole, env=gpus(1))
    program = s.start(c, dtrun=("--max-restarts", "1"), env=gpus(1))
    step = int(program.expect(r"^step +([3-9])/").group(1))
    os.kill(s.workers(program)[0], signal.SIGKILL)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    tap.check_equal(int(program.expect(r"^back at step (\d+): rank 0 from its own vault").group(1)) >= step, True, "no step is lost")
    tap.check_equal(s.losses(c), s.losses(whole), "losses with a rank killed, and without")


@training.story
def a_peer_killed(s):
    """of two ranks with a GPU each one is killed with -9: the other, whose communicators block, is told by the watchdog, and the job goes on"""
    env = {**gpus(2), "NCCL_COMM_BLOCKING": "1"}
    c = s.config("killed.json", steps=12, stage=3, device="cuda", save_every=2, save_dir=s.path("ckpt"), vault="off", **SIZE)
    program = s.start(c, world=2, dtrun=("--max-restarts", "1"), env=env)
    training.wait_for(lambda: os.path.exists(s.path("ckpt", "latest")), "a checkpoint")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    program.expect(r"dtrun-train: rank 0: .*(rank 1 \(pid \d+ on this host\) ended|rank 1\b.* gone|the agent has ended this world)")
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    tap.check_equal(program.says(r"resumed from .*: step \d+"), True, "that it resumed")


@training.story
def a_peer_stays(s):
    """of two ranks with a GPU each one after the other is killed with -9: the other keeps its process, and no bit is lost"""
    how = {"steps": 12, "stage": 3, "device": "cuda", "vault_every": 1, **SIZE}
    whole, c = s.config("whole.json", **how), s.config("stays.json", **how)
    s.run(whole, world=2, env=gpus(2))
    program = s.start(c, world=2, dtrun=("--max-restarts", "2"), env=gpus(2))
    program.expect(r"^step +3/")
    for victim in (1, 0):
        before = s.workers(program)
        os.kill(before[victim], signal.SIGKILL)
        program.expect(r"^back at step \d+")
        program.expect(r"^step +\d+/")
        after = s.workers(program)
        if not program.says("no worker stays"): # a step may take longer than the agent waits
            tap.check_equal([rank for rank in (0, 1) if after[rank] != before[rank]], [victim], "ranks with a new process")
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    tap.check_equal(s.losses(c), s.losses(whole), "losses with ranks killed, and without")


@training.story
def memory(s):
    """what does not fit is refused with who holds how much, and what to change in this very run"""
    emulated()
    model = {**HEADS_OF_64, "n_layer": 12}
    small = {"DT_EMULATOR_MEMORY": str(200 << 20), "DT_EMULATOR_DEVICES": "2"}
    recompute, stage = r"model\.activation_checkpointing true", r", zero_optimization\.stage 2 \(\S+ MiB\)"
    halves = r", train_micro_batch_size_per_gpu %d with gradient_accumulation_steps 2 \(\S+ MiB\)"
    rows = ((0, 256, recompute + r" \(saves \S+ MiB\)" + halves % 128),
            (2, 256, recompute + r" \(saves \S+ MiB in each rank\)" + halves % 64 + stage))
    for world, batch, advice in rows:
        c = s.config("%d.json" % world, device="cuda", model=model, batch=batch, accumulation=1)
        program = s.run(c, status=1, world=world, env=small)
        program.expect(r"GPU \d has no room for .* of .*; this worker: .*parameters \d+ MiB.*; try " + advice + "$")

    # What a change saves is memory of the GPU: that snapshots are smaller, too, is the host's affair. --estimate sees the GPU.
    base, none = s.path("base"), {"DT_EMULATOR_MEMORY": str(100 << 20)}
    s.run(s.config("base.json", model=model, batch=1, steps=1, save_dir=base), world=0)
    c = s.config("saves.json", device="cuda", model=model, batch=64, save_dir=s.path("saved"))
    words = ("--set", "model.weights=" + base)
    said = "\n".join(s.run(c, *words, status=1, world=0, env=none).lines)
    program = s.start_words([s.tools.train, "--estimate", c, *words], none)
    tap.check_equal(program.end(), 0, "exit status; it said\n" + "\n".join(program.lines))
    told = re.search(r"^what takes less: (.*)$", "\n".join(program.lines), re.M)[1]
    tap.check_equal(re.search(r"; try (.*)$", said, re.M)[1], told, "what is advised")
    tap.check_equal("lora {}" in told, True, "that adapters are advised in " + told)


def mib(text):
    number, unit = re.match(r"([0-9.]+) (\w+)$", text).groups()
    return float(number) * {"MiB": 1, "GiB": 1024}[unit]


@training.story
def estimates(s):
    """--estimate compares with the GPU's memory: what fits by its word trains, and what does not is refused"""
    emulated()
    c = s.config(device="auto", model={**HEADS_OF_64, "n_layer": 12}, steps=1, batch=4, accumulation=1, **DEEPSPEED_BF16)

    def asked(memory, *options):
        program = s.start_words([s.tools.train, "--estimate", c, *options], {"DT_EMULATOR_MEMORY": str(int(memory * (1 << 20)))})
        tap.check_equal(program.end(), 0, "exit status")
        return "\n".join(program.lines)

    text = asked(1024)
    if not re.search(r"whether it fits in GPU 0, .*, 1 GiB, 1 GiB free:\n", text):
        raise AssertionError("it does not say which memory it compares with:\n" + text)
    taken = mib(re.search(r"stage 0 takes (.*) of the 1 GiB that are free there: it fits", text).group(1))
    # Blocks of memory are rounded up to pages of 2 MiB.
    for memory, fits in ((taken + 24, True), (taken * 0.95, False)):
        told = asked(memory)
        tap.check_equal("free there: it fits" in told, fits, "that it fits; it said\n" + told)
        s.run(c, world=0, status=0 if fits else 1, env={"DT_EMULATOR_MEMORY": str(int(memory * (1 << 20)))})
    for device, said in (("auto", r"no GPU: there is no NVIDIA driver"), ("cuda", r"no GPU: there is no NVIDIA driver"), ("cpu", None)):
        program = s.start_words([s.tools.train, "--estimate", c, "--set", "train.device=" + device], {"DT_EMULATOR_DEVICES": "0"})
        tap.check_equal(program.end(), 0, "exit status without a GPU")
        text = "\n".join(program.lines)
        tap.check_equal(bool(re.search(r"fit in this (host|control group)'s ", text)), True, "that it is the host's memory; it said\n" + text)
        tap.check_equal(bool(re.search(said or "no GPU", text)), bool(said), "why it is; it said\n" + text)


@training.story
def too_many_ranks(s):
    """more ranks than GPUs are refused with both numbers"""
    emulated()
    c = s.config(device="cuda")
    program = s.start(c, world=3, env={"DT_EMULATOR_DEVICES": "2"})
    program.expect(r"dtrun-train: rank 2: .*2 GPUs")
    tap.check_equal(program.end(), 1, "exit status")


@training.story
def none(s):
    """without a GPU "auto" trains on the CPU and says why, and "cuda" ends with the reason"""
    emulated()
    env = {"DT_EMULATOR_DEVICES": "0"}
    program = s.run(s.config("auto.json", device="auto", steps=2, **SIZE), env=env)
    tap.check_equal(program.says(r"CPU, .*; no GPU: "), True, "the reason; it said\n" + "\n".join(program.lines))
    program = s.run(s.config("cuda.json", device="cuda", steps=2), world=0, status=1, env=env)
    tap.check_equal(program.says(r"no GPU|no NVIDIA driver|no device"), True, "the reason; it said\n" + "\n".join(program.lines))


@training.story
def mixed(s):
    """a host without a GPU beside one that has some is refused on all ranks, with the reason, and leaves nothing behind"""
    emulated()
    # A plugin without a device, and none at all.
    for lacking, why in (({"DT_EMULATOR_DEVICES": "0"}, r"no NVIDIA driver"), ({"DTRUN_CUDA_PLUGIN": s.path("absent.so")}, r"absent\.so")):
        port = servers.free_port()
        c = s.config(device="auto", steps=2, save_dir=s.path("ckpt"), **SIZE)
        words = [s.tools.dtrun, "--nnodes", "2", "--master-addr", servers.HOST, "--master-port", str(port),
                 "--no-python", s.tools.train, "--config", c]
        programs = [s.start_words([*words[:1], "--node-rank", str(node), *words[1:]], env) for node, env in enumerate(({}, lacking))]
        for rank, program in enumerate(programs):
            program.expect(r"dtrun-train: rank %d: rank 0 \(.*\) is on a GPU and rank 1 \(.*\) is not, and one job cannot mix them; "
                           r"rank 1 has no GPU: .*%s.*; cure that, set train\.device to \"cpu\", or leave .* out" % (rank, why))
            tap.check_equal(program.end() != 0, True, "exit status is one of failure")
        tap.check_equal(os.path.exists(s.path("ckpt")), False, "a folder for checkpoints")


if why_not():
    tap.skip_all(why_not())
training.main()
