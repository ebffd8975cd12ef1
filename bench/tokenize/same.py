#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same.py OURS.bin THEIRS: whether both have the same tokens; prints how many, or where they part and exits with 1."""
import array
import sys


def main():
    data = open(sys.argv[1], "rb").read()
    ours = array.array("H" if data[12] == 2 else "I", data[32:])
    theirs = array.array("I", open(sys.argv[2], "rb").read())
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            sys.exit("token %d is %d, and the library's is %d" % (i, a, b))
    if len(ours) != len(theirs):
        sys.exit("%d tokens, and the library has %d" % (len(ours), len(theirs)))
    print(len(ours))


if __name__ == "__main__":
    main()
