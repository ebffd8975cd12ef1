#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_unicode.py FOLDER nfc|added: prints a table of this folder, as Hugging Face's tokenizers has it.

FOLDER is one in which `npm i tokenizers` was run. nfc_tables.inc has Unicode's decompositions without those that the library
does not compose, and the classes of the marks that it puts in order: its tables are old. unicode_added.inc has, for each
class of characters, those that the library's patterns have beyond Unicode 14."""
import base64
import json
import subprocess
import sys
import unicodedata

ORACLE = """
const {Tokenizer} = require(process.argv[1] + '/node_modules/tokenizers');
const {normalizer, pre_tokenizer, texts} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const vocab = Object.fromEntries([...Array(256).keys()].map(b => [`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`, b]));
const tokenizer = Tokenizer.fromString(JSON.stringify({version: '1.0', truncation: null, padding: null, added_tokens: [],
    normalizer, pre_tokenizer, post_processor: null, decoder: null,
    model: {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
            fuse_unk: false, byte_fallback: true, vocab, merges: []}}));
(async () => {
    const out = [];
    for (const text of texts)
        out.push(Buffer.from((await tokenizer.encode(text, null, {addSpecialTokens: false})).getIds()).toString('base64'));
    console.log(JSON.stringify(out));
})();
"""

PROPERTIES = "L Lu Ll Lt Lm Lo M N Nd P S Z".split()


def ask(folder, texts, normalizer=None, pre_tokenizer=None):
    """What the library makes of texts before it looks for tokens."""
    asked = json.dumps({"texts": texts, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer})
    said = subprocess.run(["node", "-e", ORACLE, folder], input=asked, stdout=subprocess.PIPE, check=True, universal_newlines=True)
    return [base64.b64decode(text).decode() for text in json.loads(said.stdout)]


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def print_rows(name, kind, rows):
    print("static const %s %s[] = {" % (kind, name))
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 128:
            print(line)
            line = "   "
        line += " " + row + ","
    print(line + "\n};")


def print_nfc(folder):
    lines = [chr(c) for c in range(0x300, 0x110000) if unicodedata.combining(chr(c))]
    # Behind a mark that it knows, the library moves one of a smaller class; a mark of class 1 itself moves forward.
    asked = ["x" + (c + "\u0334" if unicodedata.combining(c) > 1 else "\u0301" + c) for c in lines]
    said = ask(folder, asked, normalizer={"type": "NFC"})
    known = {ord(c) for c, before, after in zip(lines, asked, said)
             if unicodedata.normalize("NFC", after) == unicodedata.normalize("NFC", before) and
             (after != before or unicodedata.normalize("NFC", before) == before)}
    pairs = []
    for c in range(0x110000):
        parts = unicodedata.decomposition(chr(c))
        if parts and not parts.startswith("<"):
            pairs.append((c, [int(p, 16) for p in parts.split()]))
    said = ask(folder, ["".join(map(chr, parts)) for c, parts in pairs], normalizer={"type": "NFC"})
    alone = ask(folder, [chr(c) for c, parts in pairs], normalizer={"type": "NFC"})
    rows, composing = [], []
    for (c, parts), together, one in zip(pairs, said, alone):
        if together == chr(c) and len(parts) == 2:
            composing.append((parts, len(rows)))
        elif one == chr(c):
            continue  # of this one the library knows nothing
        rows.append("{0x%X, 0x%X, %s}" % (c, parts[0], "0x%X" % parts[1] if len(parts) == 2 else "0"))
    classes = []
    for c in sorted(known):
        k = unicodedata.combining(chr(c))
        if classes and classes[-1][1:] == [c - 1, k]:
            classes[-1][1] = c
        else:
            classes.append([c, c, k])
    print_rows("decompositions", "struct decomposition", rows)
    print_rows("compositions", "uint16_t", [str(place) for parts, place in sorted(composing)])
    print_rows("classes", "struct class_range", ["{0x%X, 0x%X, %d}" % tuple(r) for r in classes])
    print_rows("seconds", "uint32_t", ["0x%X" % c for c in sorted({parts[1] for parts, place in composing})])


def print_added(folder):
    if unicodedata.unidata_version != "14.0.0":
        sys.exit("make_unicode.py: this Python has Unicode %s; run one of 14.0.0" % unicodedata.unidata_version)
    every = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = ["".join(map(chr, every[i:i + 0x4000])) for i in range(0, len(every), 0x4000)]
    for name in PROPERTIES:
        pattern = {"type": "Split", "pattern": {"Regex": r"[^\p{%s}]+" % name}, "behavior": "Removed", "invert": False}
        theirs = {ord(c) for c in "".join(ask(folder, texts, pre_tokenizer=pattern))}
        ours = {c for c in every if unicodedata.category(chr(c)).startswith(name)}
        if ours - theirs:
            sys.exit("make_unicode.py: characters have left %s: %s" % (name, ranges(ours - theirs)))
        print('    {"%s",' % name)
        line = ""
        for first, last in ranges(theirs - ours) + [(0, 0)]:
            item = "\\\\x{%x}" % first + ("-\\\\x{%x}" % last if last > first else "")
            if not last or len(line) + len(item) > 112:
                print('     "%s"' % line)
                line = ""
            line += item
        print("    },")


if __name__ == "__main__":
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Made by make_unicode.py. */")
    print("/* clang-format off */")
    {"nfc": print_nfc, "added": print_added}[sys.argv[2]](sys.argv[1])
    print("/* clang-format on */")
