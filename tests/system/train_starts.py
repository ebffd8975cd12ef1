# SPDX-License-Identifier: Apache-2.0
#
# How a run begins: with a configuration that cannot be, with weights of somebody else, and what it says and writes when all
# is well.

import csv
import json
import os
import random
import re
import struct
import subprocess

import tap
import training


def refused(s, c, says, status, *options):
    """Alone it is one sentence and the status; under dtrun all end, and the report has the sentence."""
    alone = s.run(c, *options, world=0, status=status)
    told = [line for line in alone.lines if re.search(says, line)]
    tap.check_equal((len(told), alone.lines[-1].startswith("dtrun-train: ")), (1, True), "one sentence %r in %r" % (says, alone.lines))
    s.run(c, *options, world=2, status=1).expect(r"^ *traceback : rank [01]: .*" + says)


@training.story
def settings(s):
    """settings that cannot be are refused by their path, with what would do"""
    for says, blocks in (
            (r"zero_optimization\.stagee: there is no such setting; did you mean zero_optimization\.stage\?", {"zero_optimization": {"stagee": 1}}),
            (r"fp16\.enabled and bf16\.enabled are both true", {"fp16": {"enabled": True}, "bf16": {"enabled": True}}),
            (r"data\.sequence_length: 64 is more than the 32 positions", {"data": {"sequence_length": 64}}),
            (r"bad\.json: model\.config: .*n_head", {"model": {**training.GPT2, "n_head": 5}}),
            (r"zero_optimization\.stage\b", {"zero_optimization": {"stage": 4}}),
            (r"train\.device: \"tpu\" is none of auto, cpu, cuda", {"train": {"device": "tpu"}})):
        refused(s, s.config("bad.json", **blocks), says, 2)
    refused(s, s.config(), r"train\.step: there is no such setting; did you mean train\.steps\?", 2, "--set", "train.step=3")


@training.story
def said_once(s):
    """what is wrong with a configuration is said by one rank of the job, and by any without a launcher"""
    program = s.run(s.config("bad.json", zero_optimization={"stage": 4}), world=3, status=1)
    told = [line for line in program.lines if line.startswith("dtrun-train: ")]
    tap.check_equal([line[:20] for line in told], ["dtrun-train: rank 0:"], "sentences in %r" % program.lines)
    for option in ("--no-such", "--set=train_batch_size=7"):
        program = s.run(s.config(), option, world=3, status=1)
        told = [line for line in program.lines if line.startswith("dtrun-train: rank ")]
        tap.check_equal(len(told), 1, "sentences in %r" % program.lines)
    gone = s.path("nope")
    for c, *options in ((s.config(data={"train": gone}),), (s.config(), "--init-from", gone), (s.config(), "--resume", gone),
                        (s.config(save_dir=s.path("text.bin", "ckpt"), save_every=1),), (s.config(metrics=gone + "/m.jsonl"),)):
        program = s.run(c, *options, world=3, status=1)
        told = [line for line in program.lines if line.startswith("dtrun-train: ")]
        tap.check_equal([line[:20] for line in told], ["dtrun-train: rank 0:"], "sentences in %r" % program.lines)
        program.expect(r"^ *traceback : rank 0: ")
    place = {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3"}
    s.run(s.path("bad.json"), world=0, status=2, env=place).expect(r"dtrun-train: rank 2: .*zero_optimization\.stage")


@training.story
def batches(s):
    """a batch that does not divide: with the numbers, and those that would do"""
    program = s.run(s.config(batch=13), world=2, status=1)
    program.expect(r"traceback : rank [01]: train_batch_size 13 is not divided by 2 ranks; train_batch_size 12 or 14 would do")
    program = s.run(s.config(batch=10, accumulation=3), world=2, status=1)
    program.expect(r"train_batch_size 10 is not divided by 3 accumulation steps x 2 ranks; train_batch_size 6 or 12 would do")


@training.story
def broken_configurations(s):
    """what is no configuration is refused with the place"""
    for text, says in (("{ nope", r"bad\.json: line 1, column \d+: "), ("", r"bad\.json: line 1, column 1: "),
                       ("[]", r"bad\.json: a configuration is a JSON object"),
                       ('{"train": {}, "train": {}}', r"bad\.json: train: it is there twice"),
                       ('{"train_batch_size": 4}', r"bad\.json: there is neither model\.config nor model\.weights.*; see dtrun-train\(1\)"), (None, r"cannot open .*bad\.json: No such file")):
        if text is None:
            os.unlink(s.path("bad.json"))
        else:
            with open(s.path("bad.json"), "w", encoding="utf-8") as f:
                f.write(text)
        refused(s, s.path("bad.json"), says, 2)


@training.story
def tokens(s):
    """tokens that are missing, too few, without a width, for another vocabulary, cut short, or a pipe"""
    with open(s.path("raw.bin"), "wb") as f:
        f.write(struct.pack("<400H", *range(0, 400)))
    with open(s.path("short.bin"), "wb") as f:
        f.write(bytes(40))
    with open(s.data, "rb") as f, open(s.path("cut.bin"), "wb") as g:
        g.write(f.read()[:-1])
    with open(s.path("big.bin"), "wb") as f:
        f.write(b"DTRTOKEN" + struct.pack("<IIIIQ400H", 1, 2, 0, 999, 400, *range(400)))
    os.mkfifo(s.path("pipe"))
    for says, status, data in (
            (r"data\.train: .*nope\.bin: cannot open: No such file", 1, {"train": s.path("nope.bin")}),
            (r"data\.train: .*raw\.bin: it has no header of ours; .*data\.raw_width, 2 or 4", 2, {"train": s.path("raw.bin")}),
            (r"raw\.bin: token 320 is 320, and the vocabulary ends at 319", 1, {"train": s.path("raw.bin"), "raw_width": 2, "shuffle": False}),
            (r"data\.train: .*short\.bin: it holds 20 tokens, fewer than one sample of 32", 1, {"train": s.path("short.bin"), "raw_width": 2}),
            (r"data\.train: .*cut\.bin: its header says \d+ tokens of 2 bytes, and \d+ bytes are there", 1, {"train": s.path("cut.bin")}),
            (r"data\.train: .*big\.bin: it was made for a vocabulary of 999, and that of the model is 320", 1, {"train": s.path("big.bin")}),
            (r"data\.train: .*pipe: it is no ordinary file", 1, {"train": s.path("pipe")}),
            (r"data\.validation: .*nope\.bin", 1, {"validation": s.path("nope.bin")})):
        refused(s, s.config("bad.json", data=data), says, status)


def bf16(x):
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16


def write_safetensors(path, tensors, dtype="F32"):
    """{name: (shape, values)}, as the format has it: a length, a header of JSON, the bytes."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack("<%dH" % len(values), *map(bf16, values)) if dtype == "BF16" else struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def weights():
    """A GPT-2's as Hugging Face names them; each value is one that bf16 holds."""
    width, shapes = 48, {"wte.weight": [320, 48], "wpe.weight": [32, 48], "ln_f.weight": [48], "ln_f.bias": [48]}
    for layer in range(2):
        for name, shape in (("ln_1.weight", [width]), ("ln_1.bias", [width]), ("attn.c_attn.weight", [width, 3 * width]),
                            ("attn.c_attn.bias", [3 * width]), ("attn.c_proj.weight", [width, width]), ("attn.c_proj.bias", [width]),
                            ("ln_2.weight", [width]), ("ln_2.bias", [width]), ("mlp.c_fc.weight", [width, 4 * width]),
                            ("mlp.c_fc.bias", [4 * width]), ("mlp.c_proj.weight", [4 * width, width]), ("mlp.c_proj.bias", [width])):
            shapes["h.%d.%s" % (layer, name)] = shape
    chance = random.Random(5)
    made = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        norm = name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))
        made[name] = (shape, [1 + chance.randrange(64) / 128 if norm else chance.randrange(-128, 128) / 1024 for _ in range(count)])
    return made


def write_sharded(folder, tensors, dtype):
    os.mkdir(folder)
    names = sorted(tensors)
    where = {name: "model-0000%d-of-00002.safetensors" % (1 + i % 2) for i, name in enumerate(names)}
    for file in sorted(set(where.values())):
        write_safetensors(os.path.join(folder, file), {n: tensors[n] for n in names if where[n] == file}, dtype)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)


@training.story
def weights_of_others(s):
    """--init-from: one file or shards, fp32 or bf16, with a prefix and a head or without: the same first loss"""
    made = weights()
    os.mkdir(s.path("plain"))
    write_safetensors(s.path("plain", "model.safetensors"), made)
    write_sharded(s.path("shards"), made, "BF16")
    os.mkdir(s.path("head"))
    write_safetensors(s.path("head", "model.safetensors"),
                      {**{"transformer." + k: v for k, v in made.items()}, "lm_head.weight": made["wte.weight"]})
    said = {"tokenizer.json": "{}", "generation_config.json": '{"eos_token_id": 7}', "merges.txt": "a b\n", "README.md": "of another"}
    for name, text in said.items():
        with open(s.path("plain", name), "w", encoding="utf-8") as f:
            f.write(text)
    firsts = []
    for folder in ("plain", "shards", "head"):
        for world, stage in ((1, 0), (2, 3)):
            c = s.config("%s%d.json" % (folder, world), stage=stage, steps=3)
            s.run(c, "--init-from", s.path(folder), world=world)
            firsts.append(s.losses(c))
    tap.check_equal(firsts[2], firsts[0], "losses from shards in bf16 and from one file")
    tap.check_equal(firsts[4], firsts[0], "losses with a head and without")
    training.close(firsts[1], firsts[0], 1e-5, "2 ranks at stage 3 against 1")
    c = s.config("kept.json", steps=2, save_dir=s.path("kept"))
    s.run(c, "--init-from", s.path("plain"), world=2)
    s.run(c, "--set", "train.steps=3", world=1)
    for step in (2, 3):
        there = sorted(os.listdir(s.path("kept", "step-%08d" % step)))
        tap.check_equal(there, sorted(["config.json", "model.safetensors", "optimizer", "state.json", *list(said)[:3]]), "files of step %d" % step)
        with open(s.path("kept", "step-%08d" % step, "generation_config.json"), encoding="utf-8") as f:
            tap.check_equal(f.read(), said["generation_config.json"], "what says how text is generated, in step %d" % step)
    c = s.config("own.json", steps=3)
    s.run(c)
    tap.check_equal(s.losses(c)[0] == firsts[0][0], False, "the same as without --init-from")


@training.story
def nothing_left(s):
    """a run whose steps are all done says that, and that train.steps is behind"""
    c = s.config(steps=4, save_dir=s.path("ckpt"))
    s.run(c, world=2)
    for steps in (4, 3):
        program = s.run(c, "--set", "train.steps=%d" % steps, world=1)
        program.expect(r"nothing is left to train: step 4 is done, and train\.steps is %d" % steps)
    tap.check_equal(s.checkpoints(s.path("ckpt")), ["step-00000004"], "checkpoints")


@training.story
def weights_of_checkpoints(s):
    """--init-from takes our own checkpoints, and the loss on other data is what it was"""
    validation = {"data": {"validation": s.data}, "validate_every": 4, "validation_batches": 3}
    c = s.config("first.json", steps=4, save_dir=s.path("ckpt"), **validation)
    was = s.run(c, world=2).expect(r"step 4/4  validation loss ([\d.]+)").group(1)
    c = s.config("second.json", steps=1, scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": 10}}, **validation)
    for folder in (s.path("ckpt", "step-00000004"), s.path("ckpt")):
        now = s.run(c, "--init-from", folder, world=2).expect(r"step 1/1  validation loss ([\d.]+)").group(1)
        tap.check_equal(now, was, "validation loss from " + folder)
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    del whole["model"]
    with open(c, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    now = s.run(c, "--init-from", s.path("ckpt", "step-00000004"), world=2).expect(r"step 1/1  validation loss ([\d.]+)").group(1)
    tap.check_equal(now, was, "validation loss of a model that --init-from alone names")


FAMILIES = {
    "llama": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 16}, "tie_word_embeddings": True},
    "mistral": {"head_dim": 20, "sliding_window": 9},
    "qwen2": {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    "qwen3": {"head_dim": 16, "tie_word_embeddings": True},
    "gemma": {"head_dim": 16, "hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {"head_dim": 16, "hidden_act": None, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20,
               "attn_logit_softcapping": 50, "final_logit_softcapping": 30, "sliding_window": 9},
    "gemma3_text": {"head_dim": 16, "hidden_act": None, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 9,
                    "sliding_window_pattern": 2, "rope_local_base_freq": 100, "rope_theta": 5000, "query_pre_attn_scalar": 20,
                    "rope_scaling": {"rope_type": "linear", "factor": 8}},
}


@training.story
def families(s):
    """each family: what two ranks at stage 3 leave is a folder that model.weights begins with, and the loss on other data is what it was"""
    # A batch of one rank has as many samples as those of two.
    validation = {"data": {"validation": s.data}, "validate_every": 4}
    for family, own in FAMILIES.items():
        model = {**training.LLAMA, "model_type": family, **own}
        c = s.config("first.json", model=model, stage=3, steps=4, save_dir=s.path(family), validation_batches=4, **validation)
        was = s.run(c, world=2).expect(r"step 4/4  validation loss ([\d.]+)").group(1)
        folder = s.path(family, "step-00000004")
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            written = json.load(f)
        tap.check_equal({k: written.get(k) for k in model}, model, "config.json of " + family)
        c = s.config("second.json", steps=1, scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
                     validation_batches=2, **validation)
        with open(c, encoding="utf-8") as f:
            run = {**json.load(f), "model": {"weights": folder}}
        with open(c, "w", encoding="utf-8") as f:
            json.dump(run, f)
        now = s.run(c, world=1).expect(r"step 1/1  validation loss ([\d.]+)").group(1)
        tap.check_equal(now, was, "validation loss of " + family)


@training.story
def models_of_the_hub(s):
    """a config.json as the hub has it: other programs' keys are said once, tokens with a role are kept"""
    gpt2 = {**training.GPT2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "bos_token_id": 7, "eos_token_id": [7, 9]}
    smol = {**training.LLAMA, "is_llama_config": True, "rope_interleaved": False, "eos_token_id": 0}
    bare = training.GPT2
    for name, model, says, tokens in (("gpt2", {**gpt2, "_commit_hash": "x"}, "_commit_hash is not a known setting", (7, [7, 9])),
                                      ("smol", smol, "is_llama_config is not a known setting", (None, 0)),
                                      ("bare", bare, None, (256, 256))):
        with open(s.path(name + ".json"), "w", encoding="utf-8") as f:
            json.dump(model, f)
        program = s.run(s.config("run.json", model=name + ".json", steps=1, save_dir=s.path(name)), world=2)
        tap.check_equal(len([x for x in program.lines if says and says in x]), 1 if says else 0, "sentences in %r" % program.lines)
        with open(s.path(name, "step-00000001", "config.json"), encoding="utf-8") as f:
            written = json.load(f)
        tap.check_equal((written.get("bos_token_id"), written["eos_token_id"]), tokens, "tokens of " + name)
    refused(s, s.config("run.json", model="gpt2.json"), r"model\.config\.n_heads: there is no such setting; did you mean n_head\?", 2,
            "--set", "model.config.n_heads=3")


@training.story
def weights_that_do_not_fit(s):
    """weights that do not fit: the tensor is named, with both shapes"""
    made = weights()
    without = {k: v for k, v in made.items() if k != "h.1.ln_2.bias"}
    for number, (says, tensors) in enumerate((
            (r"tensor h\.1\.ln_2\.bias is missing", without),
            (r"tensor wpe\.weight has the shape \[16, 48\], this model's has \[32, 48\]", {**made, "wpe.weight": ([16, 48], made["wpe.weight"][1][:768])}),
            (r"tensor h\.2\.ln_1\.weight is none of this model's", {**made, "h.2.ln_1.weight": made["ln_f.weight"]}))):
        os.mkdir(s.path("w%d" % number))
        write_safetensors(s.path("w%d" % number, "model.safetensors"), tensors)
        refused(s, s.config(), says, 2, "--init-from", s.path("w%d" % number))
    refused(s, s.config(), r"there is no folder \S*nowhere", 2, "--init-from", s.path("nowhere"))


@training.story
def weights_that_are_no_numbers(s):
    """weights with NaN in them: the end says where to look, and not at the learning rate"""
    made = weights()
    os.mkdir(s.path("nan"))
    write_safetensors(s.path("nan", "model.safetensors"), {**made, "ln_f.bias": ([48], [float("nan")] * 48)})
    for config in (s.config(steps=3), s.config(max_skipped_steps=1)):
        s.run(config, "--init-from", s.path("nan"), world=0, status=1).expect(
            r"the run has diverged: .*; they never were, so the weights that it began with may hold NaN or infinity")
    half = {"enabled": True, "initial_scale_power": 1, "hysteresis": 1}
    s.run(s.config(steps=3, fp16=half), "--init-from", s.path("nan"), world=2, status=1).expect(
        r"step 2: gradients overflow even at the smallest loss scale, 1; they always did, so the weights that it began with may hold NaN")


@training.story
def what_it_writes(s):
    """a line a step and one a validation on the console and in JSON, and DeepSpeed's csv files"""
    c = s.config(steps=6, data={"validation": s.data}, validate_every=3, validation_batches=2,
                 csv_monitor={"enabled": True, "output_path": s.path("csv"), "job_name": "job"})
    program = s.run(c, world=2)
    tap.check_equal([line.split()[1] for line in program.lines if " loss " in line and line.startswith("step") and "validation" not in line],
                    ["%d/6" % (i + 1) for i in range(6)], "steps on the console")
    tap.check_equal([line.split()[1] for line in program.lines if "validation loss" in line], ["3/6", "6/6"], "validations on the console")
    with open(c + ".jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    tap.check_equal([r["step"] for r in rows if "validation_loss" in r], [3, 6], "validations in JSON")
    step = s.steps(c)[6]
    tap.check_equal((step["samples"], step["tokens"], step["skipped"], step["loss_scale"]), (72, 72 * 32, False, 1), "of step 6")
    parts = sum(step[k] for k in ("forward_ms", "backward_ms", "communication_ms", "optimizer_ms", "data_ms"))
    tap.check_equal(0 < step["ms"] and parts < 2 * step["ms"], True, "times of step 6: %r" % step)
    for name, key in (("train_loss", "loss"), ("lr", "lr"), ("loss_scale", "loss_scale"), ("elapsed_time_ms_forward", "forward_ms")):
        with open(s.path("csv", "job", "Train_Samples_%s.csv" % name), newline="", encoding="utf-8") as f:
            table = list(csv.reader(f))
        tap.check_equal(table[0], ["step", name], "head of " + name)
        tap.check_equal([int(row[0]) for row in table[1:]], [12 * (i + 1) for i in range(6)], "samples of " + name)
        training.close([float(row[1]) + 1 for row in table[1:]], [s.steps(c)[i + 1][key] + 1 for i in range(6)], 1e-6, name)
    os.mkdir(s.path("logs"))
    for metrics, wanted in (("", ["train.json"]), ("null", ["metrics.jsonl", "train.json"])):
        s.run(c, "--set", "train.steps=1", "--set", "data.validation=null", "--set", "train.metrics=" + metrics, world=0,
              env={"DTRUN_LOG_DIR": s.path("logs")})
        tap.check_equal(sorted(os.listdir(s.path("logs"))), wanted, "files of a run with train.metrics=" + metrics)


@training.story
def suggests(s):
    """--suggest: the keys that it prints are those of a run; it starts nothing and takes no data"""
    c = s.config(data={"train": s.path("nope.bin")})
    program = s.start_words([s.tools.train, "--suggest", c, "--machine", "ranks=2"])
    tap.check_equal(program.end(), 0, "exit status")
    rows = [line.split() for line in program.lines if re.match(r"^[* ] +[12] +[12] ", line)]
    tap.check_equal(sorted((r[0] == "*", r[-2:] == ["not", "yet"]) for r in rows), [(False, False), (True, False)], "a pipeline, and all data, in %r" % rows)
    begin = program.lines.index("{")
    keys = json.loads("".join(program.lines[begin:program.lines.index("}") + 1]))
    tap.check_equal(keys["parallel"], {"tensor": 1, "sequence": False, "pipeline": 1, "context": 1, "expert": 1}, "what two ranks share of a small model")
    words = ["--set=%s=%s" % (k, json.dumps(v)) for k, v in keys.items() if not isinstance(v, dict)]
    words += ["--set=%s.%s=%s" % (block, k, json.dumps(v)) for block, of in keys.items() if isinstance(of, dict) for k, v in of.items()]
    s.run(s.config(), *words, "--set=train.steps=1", world=2).expect("^step 1/1 ")
    program = s.start_words([s.tools.train, "--suggest", c, "--machine", "ranks=2,memory=1M"])
    tap.check_equal(program.end(), 1, "exit status where nothing fits")
    program.expect(r"--suggest: nothing fits: .* are missing")
    # Two GPUs that nobody knows, of which the second is the fullest.
    straw = {"DTRUN_CUDA_PLUGIN": os.path.join(os.environ["DT_FAKE_PLUGINS"], "libplugin_good.so")}
    for words, status, said in (((), 2, r'--suggest: what a GPU "straw 1" computes .*gpu=L4,gpus=2,'),
                                (("--machine", "hosts=2"), 2, r'--machine: what a GPU "straw 1" '),
                                (("--machine", "gpu=H100"), 0, r"^1 host of 2 ranks, each on a GPU: H100, ")):
        program = s.start_words([s.tools.train, "--suggest", c, "--set", "train.device=auto", *words], env=straw)
        tap.check_equal(program.end(), status, "exit status with %r: %r" % (words, program.lines))
        program.expect(said)


@training.story
def estimates(s):
    """--estimate: memory of each stage, falling; it starts nothing and takes no data"""
    c = s.config(stage=2, data={"train": s.path("nope.bin")})
    lines = s.start_words([s.tools.train, "--estimate", c, "--world", "4"])
    tap.check_equal(lines.end(), 0, "exit status")
    rows = [line.split() for line in lines.lines if re.match(r"^[* ] [0-3] ", line)]
    tap.check_equal([r[0] if r[0] != "*" else "*" + r[1] for r in rows], ["0", "1", "*2", "3"], "stages, and the configured one")
    for options, words in ((("--set", "model.config=null"), "--estimate: there is neither model.config nor model.weights"),
                           (("--world", "2", "--local-world", "3"), "--estimate: 3 of 2 ranks cannot be on one host")):
        program = s.start_words([s.tools.train, "--estimate", c, *options])
        tap.check_equal(program.end(), 2, "exit status of %s" % words)
        tap.check_equal([line for line in program.lines if words in line] != [], True, "what is said in %r" % program.lines)
    sizes = [float(r[-3]) * {"KiB": 1, "MiB": 1024}[r[-2]] for r in rows]
    tap.check_equal(sizes[0] > sizes[1] and sizes[0] > sizes[3], True, "sizes %r" % sizes)


@training.story
def threads(s):
    """threads are what train.threads says, else what OMP_NUM_THREADS says"""
    for blocks, omp, expected in (({"threads": 0}, "3", "3 threads"), ({"threads": 0}, "1", "1 thread,"), ({"threads": 2}, "3", "2 threads")):
        s.run(s.config(steps=1, **blocks), world=1, env={"OMP_NUM_THREADS": omp}).expect(r"CPU, .*" + expected)


@training.story
def old_kernels(s):
    """a BLAS that was told to compute for old processors: said once for a host"""
    program = s.run(s.config(steps=1), world=2, env={"OPENBLAS_CORETYPE": "Prescott"})
    told = [line for line in program.lines if "OPENBLAS_CORETYPE" in line]
    if not told and subprocess.run(["grep", "-q", "avx2", "/proc/cpuinfo"], check=False).returncode:
        raise tap.Skip("this processor has nothing better")
    tap.check_equal(len(told), 1, "sentences in %r" % program.lines)


training.main()
