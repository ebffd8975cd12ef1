#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mixed.py OUT BYTES SEED: a text of everything that tokenizers stumble on: all scripts, marks, emoji, controls, blanks, special
tokens, bytes that are no UTF-8, words of hundreds of characters."""
import random
import sys

RANGES = [(0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x41, 0x5A), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F),
          (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x20CF), (0x2100, 0x27FF), (0x2581, 0x2581),
          (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x1F300, 0x1FAFF), (0x10000, 0x1FFFF),
          (0x20000, 0x323AF), (0, 0x1F), (0x7F, 0x9F), (0x17F, 0x17F), (0x180E, 0x180E)]
WORDS = ["<|endoftext|>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<mask>", "<tool_call>", "'s", "'LL", "\r\n", "\n\n  ", "   ",
         "1234", "</", "<|"]
BLANKS = [" ", "  ", "\n", "\n\n", "\t", " \n"]


def piece():
    kind = random.random()
    if kind < 0.1:
        return random.choice(WORDS).encode()
    if kind < 0.12:
        return bytes(random.randrange(256) for _ in range(random.randrange(1, 6)))
    if kind < 0.2:
        return random.choice(BLANKS).encode() * random.randrange(1, 5)
    if kind < 0.22:
        return chr(random.randrange(0x20, 0xD7FF)).encode() * random.randrange(1, 200)
    first, last = random.choice(RANGES)
    return "".join(chr(random.randint(first, last)) for _ in range(random.randrange(1, 12))).encode()


def main():
    random.seed(int(sys.argv[3]))
    left = int(sys.argv[2])
    with open(sys.argv[1], "wb") as out:
        while left > 0:
            left -= out.write(piece())


if __name__ == "__main__":
    main()
