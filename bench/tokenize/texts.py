#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""texts.py FOLDER BYTES SEED: documents of 0 to 512 KiB, so many bytes in all, which are FOLDER/00000, 00001 and so on: code and
prose out of this machine's files and this project's, words of many scripts, and whatever tokenizers stumble on, in passages that are
made anew each time. The same seed makes the same texts on the same machine."""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = [os.path.join(HERE, "../.."), "/usr/share", "/usr/include", "/usr/lib/python3", "/usr/lib/python3.11"]
PACKED = (".gz", ".png", ".jar", ".ttf", ".otf", ".so", ".pyc", ".xz", ".woff", ".woff2", ".gif", ".zip", ".jpg", ".bz2", ".dat", ".a",
          ".bin", ".svgz", ".whl", ".o", ".gpg", ".db", ".wav", ".oga", ".ogg", ".webp", ".ico", ".jpeg", ".tar", ".gch", ".elc")
MOST = 512 << 10

# Letters of a script, and what stands between its words.
SCRIPTS = [
    ([(0x61, 0x7A)] * 4 + [(0x41, 0x5A)], " "), ([(0x61, 0x7A)] * 3 + [(0xC0, 0x24F), (0x1E00, 0x1EFF)], " "),
    ([(0x370, 0x3FF), (0x1F00, 0x1FFF)], " "), ([(0x400, 0x52F)], " "), ([(0x531, 0x556), (0x561, 0x587)], " "),
    ([(0x591, 0x5C7), (0x5D0, 0x5EA), (0x5D0, 0x5EA)], " "), ([(0x620, 0x65F), (0x620, 0x64A), (0x66E, 0x6D3), (0x8A0, 0x8FF)], " "),
    ([(0x700, 0x7BF), (0x7C0, 0x7FF)], " "), ([(0x900, 0x97F)], " "), ([(0x980, 0x9FF)], " "), ([(0xA00, 0xAFF)], " "),
    ([(0xB00, 0xBFF)], " "), ([(0xC00, 0xCFF)], " "), ([(0xD00, 0xDFF)], " "), ([(0xE01, 0xE5B)], ""), ([(0xE80, 0xEDF)], ""),
    ([(0xF00, 0xFDA)], "\u0f0b"), ([(0x1000, 0x109F)], ""), ([(0x10A0, 0x10FF), (0x2D00, 0x2D2D)], " "),
    ([(0x1200, 0x137F)], "\u1361"), ([(0x13A0, 0x13FF), (0x1400, 0x167F)], " "), ([(0x1780, 0x17F9)], ""), ([(0x1800, 0x18AA)], " "),
    ([(0x3041, 0x3096), (0x3041, 0x3096), (0x4E00, 0x9FFF)], ""), ([(0x30A1, 0x30FF)], "\u30fb"), ([(0x4E00, 0x9FFF)], ""),
    ([(0x4E00, 0x5FFF)], ""), ([(0x3400, 0x4DBF), (0xF900, 0xFAFF)], "\u3000"), ([(0x20000, 0x323AF)], ""), ([(0xAC00, 0xD7A3)], " "),
    ([(0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)], " "), ([(0x1B00, 0x1BFF)], " "), ([(0xA980, 0xAAFF)], " "),
    ([(0x10A00, 0x10AFF), (0x11000, 0x113FF)], " "), ([(0x1D400, 0x1D7FF)], " "), ([(0xFF01, 0xFFDC)], ""),
]
STOPS = [", ", ". ", "; ", ": ", "! ", "? ", " - ", " (", ") ", "\n", "\n\n", "\u3002", "\uff0c", "\u3001", "\u060c ", "\u0964 ", "\u2026",
         " \u2014 ", "\u201c", "\u201d", "\u00ab", "\u00bb", "'", "\"", "/", "\r\n"]
BLANKS = [" ", " ", " ", "\t", "\n", "\n", "\r", "\r\n", "\v", "\f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2003", "\u2009",
          "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff"]
ENDINGS = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D", "Re", "vE", "Ll", "lL", "\u017f", "\u212a", "x", ""]
QUOTES = ["'", "'", "'", "\u2019", "\u02bc", "`", "''"]
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<mask>", "<tool_call>", "</tool_call>", "<|a|>",
           "<|a|><b>", "e\u0301x", "<|begin_of_text|>", "<|eot_id|>", "[INST]", "[/INST]", "<bos>", "<start_of_turn>", "<pad>", "<0x0A>",
           "<0xE2>", "\u2581", "\u2581\u2581", "\u0120", "\u010a", "<|", "|>", "<", ">", "</", "<s", "/s>", "<|im_", "_end|>"]
PEOPLE = [chr(c) for c in (0x1F468, 0x1F469, 0x1F9D1, 0x1F466, 0x1F467, 0x1F476, 0x1F474, 0x1F46E, 0x1F575, 0x1F3C3, 0x1F937, 0x1F926)]
THINGS = [chr(c) for c in (0x2764, 0x2640, 0x2642, 0x2695, 0x2696, 0x2708, 0x1F33E, 0x1F373, 0x1F393, 0x1F4BB, 0x1F527, 0x1F680)]
HANDS = [chr(c) for c in (0x1F44D, 0x1F44B, 0x1F64F, 0x270B, 0x261D, 0x1F4AA)]
SKINS = [chr(c) for c in range(0x1F3FB, 0x1F400)]
DIGITS = ["0123456789"] * 6 + ["".join(map(chr, range(c, c + 10))) for c in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10, 0x1D7CE)] + [
    "\u00b2\u00b3\u00b9\u00bd\u2074\u2160\u2171\u2460\u3007\u3280\u4e00\u0bf0\u1369\U00010107"]
MARKS = [(0x300, 0x36F)] * 4 + [(0x483, 0x489), (0x591, 0x5BD), (0x610, 0x61A), (0x64B, 0x65F), (0x7EB, 0x7F3), (0x8CA, 0x8FF),
                              (0x93C, 0x94D), (0xF71, 0xF84), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x3099, 0x309A),
                              (0xFE00, 0xFE2F), (0x11300, 0x11374), (0x1D165, 0x1D172), (0x1E000, 0x1E02A), (0xE0100, 0xE01EF)]
BASES = [(0x41, 0x5A), (0x61, 0x7A), (0x61, 0x7A), (0xC0, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x904, 0x939), (0x3041, 0x30FA),
         (0x1E00, 0x1EFF), (0xAC00, 0xD7A3), (0x1100, 0x1112), (0xFB1D, 0xFB4E), (0x2F800, 0x2FA1D), (0x212A, 0x212B)]
BROKEN = [b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80",
          b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xff", b"\xfe", b"\x80", b"\xbf\xbf", b"\xf8\x88\x80\x80\x80", b"\xe4\xb8"]
SIGNS = ["==", "!=", "->", "=>", "::", "&&", "||", "<<=", "...", "();", "{}", "[]", "/*", "*/", "//", "#", "@", "$", "%", "\\n", "\\", "~", "^"]


def some(r, most):
    """Mostly few, at times up to MOST."""
    return int(most ** r.random())


def between(r, ranges):
    return chr(r.randint(*r.choice(ranges)))


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.files = sorted(list_files())
        self.letters = [[chr(c) for first, last in ranges for c in range(first, last + 1)] for ranges, _ in SCRIPTS]
        self.words = [[self.new_word(i) for _ in range(500)] for i in range(len(SCRIPTS))]
        self.kinds = [(self.excerpt, 22), (self.changed_excerpt, 12), (self.prose, 16), (self.code, 4), (self.contractions, 3),
                      (self.emoji, 4), (self.marks, 4), (self.run, 3), (self.blanks, 4), (self.specials, 5), (self.digits, 4),
                      (self.controls, 2), (self.any_characters, 3), (self.broken, 2), (self.mixture, 6)]

    def new_word(self, i):
        return "".join(self.r.choices(self.letters[i], k=some(self.r, 14)))

    def excerpt(self):
        """Some of a file, cut anywhere."""
        r = self.r
        path, size = r.choice(self.files)
        with open(path, "rb") as f:
            f.seek(r.randrange(size))
            return f.read(some(r, 16000) + 100)

    def changed_excerpt(self):
        """So that its words are no longer those of every other copy."""
        r = self.r
        lines = self.excerpt().split(b"\n")
        how = r.randrange(6)
        if how == 0:
            return b"\r\n".join(lines)
        if how == 1:
            return b"\n".join(lines).swapcase()
        if how == 2:
            return b"\n".join(b" " * r.randrange(9) + line + b" " * r.randrange(3) for line in lines)
        if how == 3:
            return b"\n".join(lines).replace(b" ", r.choice([b"  ", b"\t", b"_", b"\xc2\xa0", b"", b" \t "]))
        words = b"\n".join(lines).split(b" ")
        if how == 4:
            r.shuffle(words)
        else:
            for _ in range(1 + len(words) // 20):
                words.insert(r.randrange(len(words)), self.snippet())
        return b" ".join(words)

    def snippet(self):
        return as_bytes(self.r.choice([self.one_emoji, self.one_mark, self.one_number, self.one_special, self.one_blank])())

    def prose(self):
        r, out = self.r, []
        i = r.randrange(len(SCRIPTS))
        for _ in range(some(r, 300)):
            word = r.choice(self.words[i]) if r.random() < 0.7 else self.new_word(i)
            out.append(word.capitalize() if r.random() < 0.1 else word)
            out.append(r.choice(STOPS) if r.random() < 0.15 else SCRIPTS[i][1])
        return "".join(out)

    def code(self):
        r, out = self.r, []
        for _ in range(some(r, 60)):
            names = [r.choice(self.words[r.randrange(3)]) for _ in range(r.randrange(1, 4))]
            out.append("".join(n.title() for n in names) if r.random() < 0.5 else "_".join(names))
            out.append(r.choice(SIGNS) + r.choice(["", " ", "\n" + " " * r.randrange(20), "\n" + "\t" * r.randrange(5)]))
        return "".join(out)

    def contractions(self):
        r = self.r
        return "".join(r.choice(self.words[r.randrange(4)]) + r.choice(QUOTES) + r.choice(ENDINGS) + r.choice(["", " ", " ", ",", "\n", "1"])
                       for _ in range(some(r, 60)))

    def one_emoji(self):
        r, how = self.r, self.r.randrange(7)
        if how == 0:
            return "\u200d".join(r.choice(PEOPLE) + r.choice(SKINS + [""] * 3) for _ in range(r.randrange(1, 5)))
        if how == 1:
            return r.choice(PEOPLE) + r.choice(SKINS + [""]) + "\u200d" + r.choice(THINGS) + r.choice(["\ufe0f", ""])
        if how == 2:
            return "".join(chr(0x1F1E6 + r.randrange(26)) for _ in range(r.randrange(1, 6)))
        if how == 3:
            return r.choice("0123456789#*") + "\ufe0f\u20e3"
        if how == 4:
            return "\U0001f3f4" + "".join(chr(0xE0061 + r.randrange(26)) for _ in range(5)) + "\U000e007f"
        if how == 5:
            return r.choice(HANDS) + r.choice(SKINS)
        return between(r, [(0x1F300, 0x1FAFF), (0x2600, 0x27BF)]) * some(r, 6)

    def one_mark(self):
        r = self.r
        return between(r, BASES) * r.randrange(2) + "".join(between(r, MARKS) for _ in range(some(r, 12)))

    def one_blank(self):
        r = self.r
        return r.choice(BLANKS) * some(r, 12) if r.random() < 0.6 else "".join(r.choices(BLANKS, k=some(r, 10)))

    def one_special(self):
        r = self.r
        token = r.choice(SPECIAL)
        how = r.randrange(8)
        return token.upper() if how == 0 else token[:r.randrange(len(token)) + 1] if how == 1 else token

    def one_number(self):
        r = self.r
        number = "".join(r.choices(r.choice(DIGITS), k=some(r, 30)))
        return number if r.random() < 0.7 else number + r.choice([".", ",", "-", "e+", "x", "%", " "]) + number[:3]

    def many(self, one, most, between_them):
        r = self.r
        return "".join(one() + (r.choice(between_them) if r.random() < 0.5 else "") for _ in range(some(r, most)))

    def emoji(self):
        return self.many(self.one_emoji, 60, [" ", "a", "\n", "!", "\ufe0f"])

    def marks(self):
        return self.many(self.one_mark, 150, [" ", "a", "\n", "1"])

    def blanks(self):
        return self.many(self.one_blank, 60, ["a", "1", ".", "\u4e00", "'s", "\n"])

    def specials(self):
        return self.many(self.one_special, 80, [" ", "a", "\n", "  ", "\u0301"])

    def digits(self):
        return self.many(self.one_number, 80, [" ", "a", "\n", ", ", "\u5e74"])

    def run(self):
        """One letter, or a few, again and again."""
        r = self.r
        few = "".join(r.choice(["a", " ", "=", "-", "\n", "\u4e00", "x", "0", "\t", "\u0301", "/", ".", between(r, [(0x20, 0xD7FF)])])
                      for _ in range(r.choice([1, 1, 1, 2, 3])))
        return few * some(r, 6000)

    def controls(self):
        return "".join(self.r.choices([chr(c) for c in range(0x20)] + [chr(c) for c in range(0x7F, 0xA1)] + ["\xad", "a", " "],
                                      k=some(self.r, 300)))

    def any_characters(self):
        """Of all code points, most of which are nothing, or in planes of Chinese."""
        r = self.r
        last = r.choice([0xFF, 0x3000, 0xD7FF, 0x1FFFF, 0x10FFFF])
        return "".join(chr(c) for c in (r.randrange(1, last) for _ in range(some(r, 400))) if not 0xD800 <= c < 0xE000)

    def broken(self):
        """What is no UTF-8."""
        r = self.r
        return b"".join(r.choice(BROKEN) if r.random() < 0.7 else r.randbytes(some(r, 20)) if r.random() < 0.5 else b"a\xc3\xa9 "
                        for _ in range(some(r, 60)))

    def mixture(self):
        """A bit of everything, so that each kind meets each other."""
        r, out = self.r, []
        for _ in range(some(r, 200)):
            i = r.randrange(len(SCRIPTS))
            out.append(self.snippet() if r.random() < 0.5 else as_bytes(self.new_word(i)))
            out.append(r.choice([b"", b" ", as_bytes(r.choice(STOPS)), r.choice(BROKEN) if r.random() < 0.1 else b"'"]))
        return b"".join(out)

    def document(self, most):
        """BYTES of passages, the last of which is cut."""
        size = min(some(self.r, MOST) - 1, most)
        made, out = 0, []
        kinds, weights = zip(*self.kinds)
        while made < size:
            out.append(as_bytes(self.r.choices(kinds, weights)[0]()))
            made += len(out[-1])
        return b"".join(out)[:size]


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def list_files():
    """Texts, mostly, with what they are long; at most once, by whatever name."""
    for place in PLACES:
        for folder, folders, names in os.walk(place):
            folders[:] = [f for f in folders if not f.startswith((".", "build"))]
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith(PACKED) and os.path.isfile(path) and not os.path.islink(path) and os.access(path, os.R_OK) and \
                        os.path.getsize(path) > 200:
                    yield path, os.path.getsize(path)


def main():
    folder, left, maker = sys.argv[1], int(sys.argv[2]), Maker(sys.argv[3])
    os.makedirs(folder)
    number = 0
    while left > 0:
        text = maker.document(left)
        with open(os.path.join(folder, "%05d" % number), "wb") as out:
            left -= out.write(text)
        number += 1


if __name__ == "__main__":
    main()
