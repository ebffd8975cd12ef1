#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER: writes the tokenizers of this folder, and what Hugging Face's library makes of texts with them.

FOLDER is one in which `npm i tokenizers` was run. NAME.json is a tokenizer with the settings of a family of models and a small
vocabulary, which is trained here on this project's LICENSE and on the texts below. golden.json has texts as bytes in hexadecimal
and, for each tokenizer, the tokens of each text; and the text of these tokens, or null where that is the text again."""
import collections
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "../../..")
MERGES = 400

GPT2_CODE = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXTS = [
    "", " ", "a", "Hello world", " Hello  world ", "Hello, y'all! I'LL say it's 'ſo' and DON'T they've we'Re",
    "int main(int argc, char **argv)\n{\n\treturn argc > 1 ? 0x7fffffff : -1; /* 100% */\n}\n",
    "def f(x):\r\n    if x:\r\n\r\n        return {'a': [1, 22, 333, 4444, 1234567890]}\r\n    # end   \r\n",
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX; CamelCaseWords snake_case_words kebab-case",
    "你好,世界!这是一个测试。日本語のテキスト、カタカナとひらがな。한국어 텍스트입니다.",
    "Привет, мир! Ελληνικά κείμενα. שלום עולם. مرحبا بالعالم ١٢٣. हिन्दी में पाठ १२३. ไทย ภาษา",
    "👩‍👩‍👧‍👦 🇩🇪🇫🇷 👍🏽 ❤️ ☕ 🤷‍♂️ emoji😀in😀words 😀😀😀",
    "\x00\x01\x02 \x07\x08\x0b\x0c\x1b[0m\x7f\x80\x85\x9f\xa0\xad",
    "tabs\tand\t\tmore\t \t mixed \n \n\n  \n   lines\n\n\n\n   ",
    "   leading and trailing   ", "\n\n\n", "\t", "\r\n", "  \n", "a  b   c    d",
    "e\u0301 cafe\u0301 A\u030angstro\u0308m \u1100\u1161\u11a8\u1112\u1161\u11ab \u0958\u0344 q\u0323\u0307 q\u0307\u0323 \u2126 \u212b \uf900",
    "a\u0334\u0301\u0327\u0302b \u0301alone >\u0338 <|im_end|>\u0338 \u0915\u093c \u0f73\u0f71 \u1b06\u1b35 \U0001109a \U00011099\U000110ba",
    "\u07fda\u0327\u0897 x\u0898\u0327 \u08ca\u0334 \U000105d2\u0307 \U00016121\U0001611e",
    "\u180e \u2000\u2001\u2028\u2029\u3000\u205f\ufeff\u200b x\u180ey",
    "\U00010d4a\U000105c0 \U00016d40 \U0002ebf0\U00031350 \ua7da \U00011bc0 \u1c89\u1c8a \U0001e4f0 \U00011f50",
    "½ ² Ⅷ ⅷ ٣ 𝟘𝟙 ① 〇 ㊀ ৪ 12३4",
    "x" * 99, "ab" * 50, "é" * 40, " " * 70 + "x", "\n" * 40, "a b " * 20, "=" * 50 + "-" * 47, "漢字" * 20, "aB" * 40, "-a" * 40,
    "internationalization 你好世界 internationalization's", "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b <|endoftext|>",
    "<|endoftext", "<|endoftext|", "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", "<s>a</s>Hey</s> Hey<s>", "</s>",
    "<|user|>\nHi<|end|>\n  <|user|> \n\t x", "a<tool_call>b</tool_call> <tool_call>", "x  <mask>  y<mask>z  ", "<|a|><b> <|a|> <|a|><c>",
    "e\u0301x caf\u00e9x \u00e9x", "aa--a-", "--aa--", "-a-a", "aaa", "---", "a b-c  d--e",
    "https://example.com/a/b?c=d&e=%20#f", "\\frac{a}{b} $x_1^2$ \\begin{align}\n", "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "Zürich, naïve façade, Ångström, œuvre, ﬁﬂ, ǅ ǈ ʰ ª º", "\U0010ffff\ufffe\ufdd0\ue000", "\ufffd", "'S 'T 'RE 'VE 'M 'LL 'D '\u017f",
    "▁a ▁▁ a▁b", "<0x41> <0x0A>", "Ġword Ċ", "a\u2581", " \u2581 ",
]
BYTES = [b"\xff", b"a\xc3", b"a\xc3(b", b"\xe2\x82", b"x\xe2\x82y", b"\xf0\x9f\x98", b"\xf0\x9f\x98\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xc0\x80",
         b"\xf4\x90\x80\x80", b"\x80\x80", b"\xf0\x80\x80\x80", b"\xe0\x80a", b"ok \xfe\xff ok\xc2"]


def alphabet():
    """The characters that stand for bytes."""
    seen = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    others = [b for b in range(256) if b not in seen]
    return {b: chr(b) if b in seen else chr(256 + others.index(b)) for b in range(256)}


def numbered(tokens):
    """Each token once, without gaps."""
    return {t: i for i, t in enumerate(dict.fromkeys(tokens))}


def merged(word, pair):
    out, i = [], 0
    while i < len(word):
        both = word[i:i + 2] == pair
        out.append(word[i] + word[i + 1] if both else word[i])
        i += 1 + both
    return tuple(out)


def train(words, count):
    """The merges of a table of words, tuples of symbols, with how often each is there."""
    words = [[word, n] for word, n in words.items()]
    pairs, where, merges = collections.Counter(), collections.defaultdict(set), []

    def note(i, sign):
        word, n = words[i]
        for pair in zip(word, word[1:]):
            pairs[pair] += sign * n
            where[pair].add(i)
    for i in range(len(words)):
        note(i, 1)
    while len(merges) < count:
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        for i in sorted(where.pop(best)):
            note(i, -1)
            words[i][0] = merged(words[i][0], best)
            note(i, 1)
        del pairs[best]
    return merges


def corpus():
    """Texts that do not change, so that the same files come out each time."""
    return "\n".join([open(os.path.join(TOP, "LICENSE"), encoding="utf-8").read()] + TEXTS * 3)


def byte_level_model(whole_words=False):
    letters = alphabet()
    words = collections.Counter(tuple(letters[b] for b in word.encode()) for word in re.findall(r" ?[^\s]+|\s+", corpus())
                                if len(word) < 40)
    merges = train(words, MERGES)
    vocab = [letters[b] for b in range(256)] + ["".join(m) for m in merges]
    if whole_words:
        vocab += ["".join(letters[b] for b in word.encode()) for word in ("internationalization", "你好世界", " internationalization", "xxx")]
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": whole_words, "vocab": numbered(vocab),
            "merges": [" ".join(m) for m in merges]}


def mark_model(inner=False, fallback=True):
    text = corpus().replace(" ", "▁")
    words = collections.Counter(tuple(word) for word in re.findall(r"▁+[^▁\n]*|[^▁\n]+", text) if len(word) < 40)
    letters = [c for c, n in collections.Counter(text).most_common(150) if c != "\x00"]
    words = collections.Counter({word: n for word, n in words.items() if set(word) <= set(letters)})
    merges = train(words, MERGES)
    vocab = ["<unk>", "<s>", "</s>"] + (["<0x%02X>" % b for b in range(256)] if fallback else []) + letters
    vocab += sorted({"".join(m) for m in merges} - set(letters))
    if inner:
        merges.append(("a", "▁b"))
        vocab += [t for t in ("▁b", "a▁b") if t not in vocab]
        merges.insert(0, ("▁", "b"))
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": True, "byte_fallback": fallback, "vocab": numbered(vocab), "merges": [list(m) for m in merges]}


def added(content, special=True, **more):
    return dict({"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special,
                 "special": special}, **more)


def front(token):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [token], "tokens": [token]}}}


def byte_level(regex, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def tokenizers():
    plain, whole = byte_level_model(), byte_level_model(whole_words=True)
    marks = mark_model()
    legacy = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = sequence("decoders", *back, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    end = [added("<|endoftext|>")]
    chat = end + [added("<|im_start|>"), added("<|im_end|>"), added("<tool_call>", special=False, normalized=False),
                  added("e\u0301x", special=False), added("<|a|>"), added("<|a|><b>"), added("<mask>", lstrip=True, rstrip=True)]
    sentence = [added("<unk>"), added("<s>"), added("</s>")]
    use = byte_level(False)
    out = {
        "gpt2": (None, byte_level(True), byte_level(True), use, plain, end),
        "prefix": (None, byte_level(True, prefix=True), None, use, plain, chat),
        "llama3": (None, sequence("pretokenizers", split({"Regex": LLAMA3}), use), sequence("processors", use, front("<|im_start|>")), use,
                   whole, chat),
        "qwen2": ({"type": "NFC"}, sequence("pretokenizers", split({"Regex": QWEN}), use), use, use, plain, chat),
        "tekken": (None, sequence("pretokenizers", split({"Regex": TEKKEN}), use), front("<s>"), use, whole, sentence),
        "smollm": (None, sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level(True)), None, use, plain, chat),
        "llama2": (legacy, None, front("<s>"), strip, marks, sentence),
        "mistral": (None, metaspace, front("<s>"), strip, marks, sentence),
        "phi3": (legacy, None, None, strip, marks, sentence + [added("<|user|>", rstrip=True), added("<|end|>", rstrip=True)]),
        "gemma": (legacy["normalizers"][1], split({"String": " "}, "MergedWithPrevious"), front("<s>"), sequence("decoders", *back), marks,
                  sentence),
        "inner": (legacy, None, front("<s>"), strip, mark_model(inner=True), sentence),
        "unknown": (None, dict(metaspace, prepend_scheme="always", split=True), None, dict(metaspace, prepend_scheme="always", split=True),
                    mark_model(fallback=False), sentence),
    }
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            out["%s%s" % (behavior.lower(), "_inverted" if invert else "")] = (
                None, sequence("pretokenizers", split({"Regex": "-|a+|\\s"}, behavior, invert), use), None, None, dash_model(), [])
    return out


def dash_model():
    letters = list(alphabet().values())
    merges = [("a", "a"), ("-", "-"), ("a", "-"), ("-", "a"), ("Ġ", "a"), ("aa", "a"), ("-", "c"), ("b", "-"), ("--", "e"), ("d", "--")]
    vocab = letters + ["".join(m) for m in merges]
    return {"type": "BPE", "vocab": numbered(vocab), "merges": [" ".join(m) for m in merges]}


def with_ids(tokenizer):
    """The ids that the library gives to added tokens, where a template names them."""
    vocab = tokenizer["model"]["vocab"]
    ids, following = dict(vocab), len(vocab)
    for a in tokenizer["added_tokens"]:
        if a["content"] not in ids:
            ids[a["content"]] = following
            following += 1
    def fill(part):
        for one in part.get("processors", []) if part else []:
            fill(one)
        for name, special in (part or {}).get("special_tokens", {}).items():
            special["ids"] = [ids[name]]
    fill(tokenizer["post_processor"])
    return tokenizer


def document(parts):
    names = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "added_tokens")
    return json.loads(json.dumps(dict(zip(names, parts), version="1.0", truncation=None, padding=None)))


LIBRARY = """
const {Tokenizer} = require(process.argv[1] + '/node_modules/tokenizers');
const {texts, files} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
(async () => {
    const out = {};
    for (const [name, file] of Object.entries(files)) {
        const t = Tokenizer.fromString(file), ids = [], decoded = [];
        for (const text of texts) {
            const e = await t.encode(Buffer.from(text, 'hex').toString('utf8'), null, {addSpecialTokens: true});
            ids.push(e.getIds());
            const back = Buffer.from(await t.decode(e.getIds(), false)).toString('hex');
            decoded.push(back === text ? null : back);
        }
        out[name] = {ids, decoded};
    }
    console.log(JSON.stringify(out));
})();
"""


def main():
    files = {}
    for name, parts in tokenizers().items():
        files[name] = json.dumps(with_ids(document(parts)), ensure_ascii=False)
        with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
            f.write(files[name] + "\n")
    texts = [text.encode().hex() for text in TEXTS] + [text.hex() for text in BYTES]
    said = subprocess.run(["node", "-e", LIBRARY, sys.argv[1]], input=json.dumps({"texts": texts, "files": files}), stdout=subprocess.PIPE,
                          check=True, universal_newlines=True)
    with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as f:
        tables = json.loads(said.stdout)
        f.write('{"texts": [\n%s],\n"tokenizers": {\n' % ",\n".join(json.dumps(t) for t in texts))
        f.write(",\n".join('"%s": {"ids": [\n%s],\n"decoded": [\n%s]}' % (
            name, ",\n".join(json.dumps(ids, separators=(",", ":")) for ids in table["ids"]),
            ",\n".join(json.dumps(d) for d in table["decoded"])) for name, table in tables.items()))
        f.write("}}\n")


if __name__ == "__main__":
    main()
