#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inputs that fuzzers found, of one entry in one file: a line is a name and the bytes in base64.

corpus.py unpack FILE FOLDER       writes each input to a file in FOLDER, for a fuzzer
corpus.py add FILE INPUT...        adds inputs to FILE, by their names; one that is there already is replaced
"""
import base64
import pathlib
import sys


def read(path):
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        name, _, text = line.partition(" ")
        rows[name] = base64.b64decode(text, validate=True)
    return rows


def unpack(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in read(path).items():
        (folder / name).write_bytes(data)


def add(path, inputs):
    rows = read(path)
    for i in inputs:
        rows[i.name.replace(" ", "_")] = i.read_bytes()
    path.write_text("".join(f"{name} {base64.b64encode(rows[name]).decode()}".rstrip() + "\n" for name in sorted(rows)))


def main(args):
    if len(args) == 3 and args[0] == "unpack":
        unpack(pathlib.Path(args[1]), pathlib.Path(args[2]))
    elif len(args) >= 3 and args[0] == "add":
        add(pathlib.Path(args[1]), [pathlib.Path(a) for a in args[2:]])
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
