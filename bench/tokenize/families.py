#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""families.py FOLDER FILE...: writes FOLDER/NAME/tokenizer.json of families of models, with a vocabulary of these texts."""
import collections
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/runtime/tokenizers"))
sys.dont_write_bytecode = True
import make  # noqa: E402

MERGES = 3000
WORDS = 8000  # of those that are there most often
WHOLE = 4000  # of these, that are tokens also where no merges lead to them
FAMILIES = ("gpt2", "llama3", "qwen2", "tekken", "smollm", "llama2", "mistral", "gemma")


def most_common(words):
    return collections.Counter(dict(words.most_common(WORDS)))


def main():
    folder, files = sys.argv[1], sys.argv[2:]
    text = "".join(open(name, encoding="utf-8", errors="replace").read() for name in files) + make.corpus()
    letters = make.alphabet()
    words = collections.Counter(re.findall(r" ?\w+| ?[^\s\w]+|\s+", text))
    whole = ["".join(letters[b] for b in w.encode()) for w, _ in words.most_common(WHOLE)]
    by_bytes = make.train({tuple(letters[b] for b in w.encode()): n for w, n in most_common(words).items() if len(w) < 40}, MERGES)
    common = {c for c, n in collections.Counter(text.replace(" ", "▁")).most_common(2000)} - {"\0"}
    words = collections.Counter(w for w in re.findall(r"▁+[^▁\s]*|[^▁\s]+", text.replace(" ", "▁")) if set(w) <= common and len(w) < 40)
    by_marks = make.train({tuple(w): n for w, n in most_common(words).items()}, MERGES)
    for name, parts in make.tokenizers().items():
        if name not in FAMILIES:
            continue
        tokenizer = make.document(parts)
        model = tokenizer["model"]
        if "▁" in model["vocab"]:
            first, merges = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + sorted(common), by_marks
        else:
            first, merges = list(letters.values()), by_bytes
        first += ["".join(m) for m in merges]
        model["vocab"] = make.numbered(first + (whole if model.get("ignore_merges") else []))
        model["merges"] = [list(m) for m in merges]
        os.makedirs(os.path.join(folder, name))
        with open(os.path.join(folder, name, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(make.with_ids(tokenizer), f, ensure_ascii=False)


if __name__ == "__main__":
    main()
