# SPDX-License-Identifier: Apache-2.0
#
# Files of LLaMA-Factory's, from a dataset as people have it to adapters: what is trained on, for how many steps, and what is said.

import json
import os
import random
import shutil
import signal

import tap
import training

MODEL = dict(training.LLAMA, vocab_size=816, max_position_embeddings=128, tie_word_embeddings=False)
TOKENIZER = os.path.join(training.TOP, "tests/runtime/tokenizers/llama2.json")
EXAMPLES = 40


def model(s):
    """A folder of Hugging Face's with a small model and its tokenizer."""
    folder = s.path("llama")
    if not os.path.isdir(folder):
        s.run(s.config("base.json", model=MODEL, steps=1, save_dir=s.path("base")), world=0)
        shutil.copytree(s.path("base", "step-00000001"), folder)
        shutil.copy(TOKENIZER, os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump({"eos_token": "</s>"}, f)
    return folder


def datasets(s):
    """Sums, as Alpaca and as OpenAI write them, and pairs of answers to them, in a third form as well, and what is told of them."""
    folder = s.path("data")
    if os.path.isdir(folder):
        return folder
    os.mkdir(folder)
    chance = random.Random(5)
    pairs = [(chance.randint(1, 30), chance.randint(1, 30)) for _ in range(EXAMPLES)]
    info = {"sums": {"file_name": "sums.json"},
            "turns": {"file_name": "turns.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"},
                      "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
            "ranked": {"file_name": "ranked.json", "ranking": True,
                       "columns": {"prompt": "instruction", "query": "input", "chosen": "good", "rejected": "bad"}},
            "turns_ranked": {"file_name": "turns_ranked.jsonl", "ranking": True, "formatting": "sharegpt",
                             "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}}}
    with open(os.path.join(folder, "dataset_info.json"), "w", encoding="utf-8") as f:
        json.dump(info, f)
    with open(os.path.join(folder, "sums.json"), "w", encoding="utf-8") as f:
        json.dump([{"instruction": "add", "input": "%d+%d" % (a, b), "output": str(a + b)} for a, b in pairs], f, indent=2)
    with open(os.path.join(folder, "turns.jsonl"), "w", encoding="utf-8") as f:
        for a, b in pairs:
            f.write(json.dumps({"messages": [{"role": "user", "content": "add\n%d+%d" % (a, b)},
                                             {"role": "assistant", "content": str(a + b)}]}) + "\n")
    answers = [("it is %d" % (a + b), "no: %d" % (a + b + chance.randint(1, 9))) for a, b in pairs]
    with open(os.path.join(folder, "ranked.json"), "w", encoding="utf-8") as f:
        json.dump([{"instruction": "add", "input": "%d+%d" % ab, "good": good, "bad": bad} for ab, (good, bad) in zip(pairs, answers)], f)
    with open(os.path.join(folder, "turns_ranked.jsonl"), "w", encoding="utf-8") as f:
        for ab, (good, bad) in zip(pairs, answers):
            f.write(json.dumps({"conversations": [{"from": "human", "value": "add\n%d+%d" % ab}],
                                "chosen": {"from": "gpt", "value": good}, "rejected": {"from": "gpt", "value": bad}}) + "\n")
    with open(os.path.join(folder, "plain_ranked.jsonl"), "w", encoding="utf-8") as f:
        for ab, (good, bad) in zip(pairs, answers):
            f.write(json.dumps({"prompt": "add\n%d+%d" % ab, "chosen": good, "rejected": bad}) + "\n")
    return folder


def yaml(s, name, **keys):
    """A file as people have them; keys that are None are left out."""
    whole = {"model_name_or_path": model(s), "stage": "sft", "do_train": "true", "finetuning_type": "lora", "lora_rank": 8,
             "lora_target": "all", "dataset": "sums", "dataset_dir": datasets(s), "template": "llama2", "cutoff_len": 64,
             "output_dir": s.path(name + ".out"), "logging_steps": 1, "save_steps": 500, "plot_loss": "true",
             "overwrite_output_dir": "true", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1,
             "learning_rate": "3.0e-2", "num_train_epochs": 4.0, "lr_scheduler_type": "constant", **keys}
    with open(s.path(name), "w", encoding="utf-8") as f:
        f.write("### made by a test\n")
        f.writelines("%s: %s\n" % (key, value) for key, value in whole.items() if value is not None)
    return s.path(name)


def run(s, path, *options, world=2, status=0):
    words = [s.tools.train, "--llamafactory", path, "--set", "train.threads=1", "--set", "train.metrics=" + path + ".jsonl", *options]
    if world:
        words = [s.tools.dtrun, "--nproc-per-node", str(world), "--no-python", *words]
    program = s.start_words(words)
    tap.check_equal(program.end(), status, "exit status; it said\n%s\n" % "\n".join(program.lines))
    return program


def said(program, words):
    return sum(words in line for line in program.lines)


def tokens(s, name):
    folder = s.path(name + ".out", "tokens")
    return {n: os.stat(os.path.join(folder, n)).st_mtime_ns for n in os.listdir(folder) if n.endswith(".bin")}


@training.story
def trains(s):
    """a file of YAML trains adapters under two ranks, and makes tokens of its dataset once"""
    path = yaml(s, "run.yaml", additional_target="lm_head")
    program = run(s, path)
    tap.check_equal(said(program, "%d conversations with" % EXAMPLES), 1, "lines that tell of tokens")
    tap.check_equal(said(program, "plot_loss has no meaning here and is ignored"), 1, "lines that tell of keys")
    losses = s.losses(path)
    tap.check_equal(len(losses), 4 * EXAMPLES // (4 * 2), "steps")
    if not losses[-1] < 0.5 * losses[0]:
        raise AssertionError("the loss does not fall: %r" % losses)
    tap.check_equal(os.path.exists(s.path("run.yaml.out", "step-00000020", "adapter_model.safetensors")), True, "adapters are saved")
    before = tokens(s, "run.yaml")
    program = run(s, path, world=1)
    tap.check_equal(said(program, "conversations with"), 0, "lines that tell of tokens")
    tap.check_equal(tokens(s, "run.yaml"), before, "files of tokens")
    training.close(s.losses(path)[:1], losses[:1], 1, "the first step, anew")


@training.story
def same_tokens(s):
    """datasets of any form give the tokens that tokenize makes of the same conversations, and so the same losses"""
    losses = {}
    for name in ("sums", "turns"):
        path = yaml(s, name + ".yaml", dataset=name, num_train_epochs=1.0)
        run(s, path)
        losses[name] = s.losses(path)
        file, = tokens(s, name + ".yaml")
        out = s.path(name + ".bin")
        program = s.start_words([s.tools.train, "tokenize", "--tokenizer", model(s), "--template", "llama2", "--max-tokens", "64",
                                 os.path.join(datasets(s), {"sums": "sums.json", "turns": "turns.jsonl"}[name]), "-o", out])
        tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
        with open(out, "rb") as a, open(s.path(name + ".yaml.out", "tokens", file), "rb") as b:
            tap.check_equal(a.read() == b.read(), True, "tokens of " + name)
    tap.check_equal(losses["turns"], losses["sums"], "losses")


@training.story
def preferences(s):
    """the stage dpo learns from datasets of pairs what a configuration learns from the pairs that tokenize makes of them"""
    how = {"stage": "dpo", "pref_beta": 0.2, "pref_ftx": 0.1, "dpo_label_smoothing": 0.05, "pref_loss": "sigmoid", "lora_dropout": 0.1,
           "num_train_epochs": 2.0, "val_size": 0.2, "eval_strategy": "steps", "eval_steps": 4, "learning_rate": "1.0e-2"}
    losses = {}
    for name in ("ranked", "turns_ranked"):
        path = yaml(s, name + ".yaml", dataset=name, **how)
        program = run(s, path)
        tap.check_equal(said(program, "%d pairs with" % (EXAMPLES * 4 // 5)), 1, "lines that tell of tokens")
        tap.check_equal(said(program, "%d more for validation" % (EXAMPLES // 5)), 1, "lines that tell of validation")
        tap.check_equal(said(program, "lora_dropout: the stage dpo trains without dropout"), 1, "lines that tell of dropout")
        losses[name] = s.losses(path)
    out, held = s.path("pairs.bin"), s.path("held.bin")
    program = s.start_words([s.tools.train, "tokenize", "--tokenizer", model(s), "--template", "llama2", "--preferences", "--max-tokens", "64",
                             os.path.join(datasets(s), "plain_ranked.jsonl"), "-o", out, "--validation", held, "--split", "0.2"])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    made = s.path("ranked.yaml.out", "tokens")
    for name in os.listdir(made):
        if name.endswith(".bin"):
            with open(os.path.join(made, name), "rb") as a, open(held if name.endswith("-validation.bin") else out, "rb") as b:
                tap.check_equal(a.read() == b.read(), True, "tokens of " + name)
    config = {"model": {"weights": model(s), "activation_checkpointing": True}, "lora": {"r": 8, "target_modules": "all-linear"},
              "dpo": {"beta": 0.2, "sft": 0.1, "label_smoothing": 0.05}, "gradient_clipping": 1, "train_micro_batch_size_per_gpu": 4,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}, "scheduler": {"type": "constant"},
              "data": {"train": out, "validation": held, "sequence_length": 128, "packing": False},
              "train": {"epochs": 2, "seed": 42, "threads": 1, "log_every": 1, "metrics": s.path("pairs.json.jsonl"), "validate_every": 4,
                        "validation_batches": 1000000}}
    with open(s.path("pairs.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    s.run(s.path("pairs.json"), world=2)
    losses["pairs"] = s.losses(s.path("pairs.json"))
    tap.check_equal(len(losses["pairs"]), 2 * (EXAMPLES * 4 // 5) // (4 * 2), "steps")
    if not losses["pairs"][-1] < losses["pairs"][0] - 0.05:
        raise AssertionError("the loss does not fall: %r" % losses["pairs"])
    tap.check_equal(losses["ranked"], losses["pairs"], "losses, as Alpaca writes pairs")
    tap.check_equal(losses["turns_ranked"], losses["pairs"], "losses, as ShareGPT writes pairs")


@training.story
def as_a_command(s):
    """what people type behind llamafactory-cli train is the same run as a file"""
    path = yaml(s, "line.yaml", max_steps=3)
    run(s, path)
    with open(path, encoding="utf-8") as f:
        words = [w for line in f if not line.startswith("#") for w in line.rstrip("\n").split(": ", 1)]
    words = ["--" + w if i % 2 == 0 else w for i, w in enumerate(words)]
    program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--no-python", s.tools.train, "llamafactory", *words, "--set",
                             "train.threads=1", "train.metrics=" + s.path("words.jsonl"), "--output_dir", s.path("words.out")])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    tap.check_equal(s.losses(s.path("words")), s.losses(path), "losses")


@training.story
def rescued(s):
    """a command that fails for good saves its last step, also where its datasets are gone by then"""
    gone = shutil.copytree(datasets(s), s.path("gone"))
    path = yaml(s, "lost.yaml", max_steps=training.LONG, dataset_dir=gone, val_size=4, load_best_model_at_end="true",
                eval_strategy="steps", eval_steps=training.LONG)
    program = s.start_words([s.tools.dtrun, "--nproc-per-node", "2", "--no-python", s.tools.train, "llamafactory", path, "--set",
                             "train.threads=1", "--set", "train.vault_every=1"])
    program.expect(r"^step +3/")
    shutil.rmtree(gone)
    os.kill(s.workers(program)[1], signal.SIGKILL)
    step = int(program.expect(r"^dtrun-train: step (\d+) is saved in ").group(1))
    tap.check_equal(program.end(), 1, "exit status")
    tap.check_equal(s.checkpoints(s.path("lost.yaml.out")), ["step-%08d" % step], "checkpoints")


@training.story
def whole_runs(s):
    """a run is the same from the configuration that is printed, from JSON, at stage 3, and packed it is another"""
    path = yaml(s, "whole.yaml", num_train_epochs=2.0, val_size=8, eval_strategy="steps", eval_steps=3, lr_scheduler_type="cosine")
    program = run(s, path)
    program.expect(r"validation")
    losses = s.losses(path)
    tap.check_equal(len(losses), 2 * (EXAMPLES - 8) // (4 * 2), "steps")
    program = s.start_words([s.tools.train, "--llamafactory", path, "--print-config"])
    tap.check_equal(program.end(), 0, "exit status; it said\n%s\n" % "\n".join(program.lines))
    text = "\n".join(line for line in program.lines if not line.startswith("dtrun-train:"))
    config = json.loads(text)
    config["train"].update(threads=1, save_dir=s.path("printed.out"), metrics=s.path("printed.json.jsonl"))
    with open(s.path("printed.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    s.run(s.path("printed.json"), world=2)
    training.close(s.losses(s.path("printed.json")), losses, 1e-5, "as printed")
    with open(path, encoding="utf-8") as f:
        pairs = [line.rstrip("\n").split(": ", 1) for line in f if not line.startswith("#")]
    with open(s.path("z3.json"), "w", encoding="utf-8") as f:
        json.dump({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "zero_optimization": {"stage": 3}}, f)
    whole = {key: json.loads(value) if value[0] in "0123456789tf" else value for key, value in pairs}
    with open(s.path("whole.json"), "w", encoding="utf-8") as f:
        json.dump({**whole, "output_dir": s.path("whole.json.out"), "deepspeed": s.path("z3.json")}, f)
    run(s, s.path("whole.json"))
    training.close(s.losses(s.path("whole.json")), losses, 1e-5, "from JSON, at stage 3")
    packed = yaml(s, "packed.yaml", packing="true", neat_packing="true")
    program = run(s, packed)
    program.expect(r"%d documents packed into them" % EXAMPLES)


@training.story
def goes_on(s):
    """without overwrite_output_dir a run goes on where it was, and with it it begins anew"""
    path = yaml(s, "on.yaml", max_steps=3, save_steps=1)
    run(s, path)
    program = run(s, path, "--set", "overwrite_output_dir=false", "--set", "max_steps=5")
    program.expect(r"resumed from .*: step 3")
    tap.check_equal(s.checkpoints(s.path("on.yaml.out"))[-1], "step-00000005", "the newest checkpoint")
    program = run(s, path, "--set", "max_steps=2")
    tap.check_equal(said(program, "resumed from"), 0, "lines that tell of a checkpoint")
    tap.check_equal(s.checkpoints(s.path("on.yaml.out"))[-1], "step-00000002", "the newest checkpoint")


@training.story
def is_refused(s):
    """what is wrong with a file or a dataset is said once, before the ranks meet"""
    rows = [({"quantization_bit": 8}, 2, "refused.yaml: quantization_bit: "),
            ({"template": "llama9"}, 2, "there is no chat template \"llama9\""),
            ({"dataset": "none"}, 2, "has no \"none\""),
            ({"model_name_or_path": "meta-llama/Llama-2-7b-hf"}, 2, "hf download meta-llama/Llama-2-7b-hf"),
            ({"template": "llama3"}, 1, "the tokenizer has no token <|begin_of_text|>")]
    for keys, status, words in rows:
        program = run(s, yaml(s, "refused.yaml", **keys), status=1)
        if not said(program, words):
            raise AssertionError("%r: %r is not said:\n%s" % (keys, words, "\n".join(program.lines)))
        program = run(s, s.path("refused.yaml"), world=0, status=status)
        tap.check_equal(said(program, words), 1, "lines that tell of it")


training.main()
