# SPDX-License-Identifier: Apache-2.0
#
# What a trained model says: `dtrun-train generate` on the checkpoints of a run.

import json
import os
import re
import shutil
import signal
import subprocess

import tap
import terminal
import training


def holds(fact, what):
    if not fact:
        raise AssertionError(what)


def generate(s, *words, prompt=b"", status=0):
    """What it prints, and what it says of that."""
    done = subprocess.run([s.tools.train, "generate", *words, "--threads", "1"], input=prompt, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=tap.die_with_parent, check=False)
    said = done.stderr.decode()
    tap.check_equal(done.returncode, status, "exit status; it said\n%s\n" % said)
    return done.stdout, said


@training.story
def speaks(s):
    """a checkpoint goes on with a text: from a line, a file or a pipe, and with a seed again"""
    for model in (training.GPT2, training.LLAMA):
        folder = s.path(model["model_type"])
        s.run(s.config(model=model, save_dir=folder, steps=6), world=0)
        with open(s.path("prompt"), "w", encoding="utf-8") as f:
            f.write("The node\n")
        options = ("--max-new-tokens", "20", "--seed", "5")
        text, said = generate(s, folder, "--prompt", "The node", *options)
        for again in (generate(s, folder, "--prompt-file", s.path("prompt"), *options),
                      generate(s, folder, *options, prompt=b"The node\n"),
                      generate(s, os.path.join(folder, "step-00000006"), "--prompt", "The node", *options)):
            tap.check_equal(again[0], text, "the text once more")
        facts = re.fullmatch(r"dtrun-train: prompt: 8 tokens, [\d.]+ tokens/s; text: \d+ tokens?(, [\d.]+ tokens/s)?; "
                             r"--seed 5; (--max-new-tokens are reached|the model ended its text)\n", said)
        holds(facts is not None, "what it says of the text: %r" % said)
        stop = text.decode().replace("\0", "")[5:6] or "?"
        before, said = generate(s, folder, "--prompt", "The node", *options, "--stop", stop)
        tap.check_equal(before.decode(), text.decode().partition(stop)[0], "the text in front of %r" % stop)
        holds(said.endswith("a stop came\n") or stop not in text.decode(), said)
        _, said = generate(s, folder, "--prompt", "The node", "--temperature", "0")
        holds("--seed" not in said, said)
        holds("the model takes no longer text" in said or "the model ended its text" in said, said)


@training.story
def told(s):
    """SIGINT ends a text: what was said is there, and the program dies by it"""
    llama = {**training.LLAMA, "max_position_embeddings": 200000}
    folder = s.path("long")
    s.run(s.config(model=llama, save_dir=folder, steps=2, data={"sequence_length": 32}), world=0)
    words = [s.tools.train, "generate", folder, "--prompt", "x", "--max-new-tokens", "100000", "--temperature", "0", "--threads", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=tap.die_with_parent) as program:
        holds(program.stdout.read(1), "a first letter")
        program.send_signal(signal.SIGINT)
        _, said = program.communicate()
    tap.check_equal(program.returncode, -signal.SIGINT, "how it ended")
    holds(said.decode().endswith("told to end\n"), said.decode())


@training.story
def on_a_terminal(s):
    """a terminal is shown what would steer it, and the text ends with a line"""
    folder = s.path("steers")
    s.run(s.config(save_dir=folder, steps=1), world=0)
    master, slave = terminal.open_terminal()
    with subprocess.Popen([s.tools.train, "generate", folder, "--prompt", "x", "--max-new-tokens", "25", "--temperature", "9",
                           "--top-k", "0", "--top-p", "1", "--seed", "3", "--threads", "1"], stdout=slave,
                          stderr=subprocess.DEVNULL, preexec_fn=tap.die_with_parent) as program:
        os.close(slave)
        text = b""
        try:
            while part := os.read(master, 4096):
                text += part
        except OSError:
            pass  # the other end is closed
    os.close(master)
    tap.check_equal(program.returncode, 0, "exit status")
    holds(text.endswith(b"\n"), "a line's end behind %r" % text)
    steers = [c for c in text.decode() if (c < " " and c not in "\r\n\t") or "\x7f" <= c < "\xa0"]
    tap.check_equal(steers, [], "what a terminal would obey in %r" % text)
    holds(b"\\x" in text, "something of that kind in %r" % text)


@training.story
def answers(s):
    """a model that was taught by conversations answers a question as it was taught, also when it was exported"""
    tokenizer = s.path("tokenizer")
    os.mkdir(tokenizer)
    shutil.copy(os.path.join(training.TOP, "tests/runtime/tokenizers/qwen2.json"), os.path.join(tokenizer, "tokenizer.json"))
    with open(s.path("chats.jsonl"), "w", encoding="utf-8") as f:
        for thing in ("node", "rank", "seat", "vault"):
            f.write(json.dumps({"messages": [{"role": "user", "content": "What is a %s?" % thing},
                                             {"role": "assistant", "content": "Ahoy, a %s!" % thing}]}) + "\n")
    chats, folder = s.path("chats.bin"), s.path("taught")
    subprocess.run([s.tools.train, "tokenize", "--tokenizer", tokenizer, "--template", "chatml", s.path("chats.jsonl"), "-o", chats],
                   check=True, stdout=subprocess.DEVNULL)
    s.run(s.config(model={**training.GPT2, "vocab_size": 704, "n_positions": 64}, batch=4, steps=60, save_dir=folder,
                   optimizer={"params": {"lr": 1e-2}}, data={"train": chats}), world=0)
    ask = ("--tokenizer", tokenizer, "--template", "chatml", "--temperature", "0", "--prompt", "What is a seat?")
    text, said = generate(s, folder, *ask)
    tap.check_equal(text.decode(), "Ahoy, a seat!", "the answer")
    holds(said.endswith("the model ended its text\n"), said)
    for to, out in (("hf", "folder"), ("gguf", "file")):
        subprocess.run([s.tools.train, "export", folder, "--tokenizer", tokenizer, "--to", to, "-o", s.path(out)], check=True,
                       stdout=subprocess.DEVNULL)
    again, _ = generate(s, s.path("folder"), *ask[2:])
    tap.check_equal(again, text, "the answer of what was exported, by the tokenizer that came along")
    with open(s.path("file"), "rb") as f:
        tap.check_equal(f.read(4), b"GGUF", "what a GGUF begins with")


@training.story
def refused(s):
    """a folder that is no model is refused with a sentence, and so is a model whose tokens nobody knows"""
    _, said = generate(s, s.path("nope"), status=2)
    holds(re.fullmatch(r"dtrun-train: .*nope.*\n", said), said)
    folder = s.path("other")
    s.run(s.config(model={**training.GPT2, "vocab_size": 400, "eos_token_id": 399}, save_dir=folder, steps=1), world=0)
    _, said = generate(s, folder, status=2)
    holds("has no tokenizer.json; name the folder" in said, said)
    with open(os.path.join(folder, "step-00000001", "config.json"), encoding="utf-8") as f:
        tap.check_equal(json.load(f)["eos_token_id"], 399, "the end that it names")


training.main()
