#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""equal.py TRAIN LIBRARY MODELS FOLDER MIB SEED JOBS MINUTES FAMILY...: texts.py's texts through each family's tokenizer, by ours
and by Hugging Face's library, and whether all tokens are the same. Part after part, so that FOLDER never holds more than one of them;
JOBS families at once. Begins no further part after MINUTES. A family's first difference is told, and ends that family."""
import array
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PART = 4 << 20
SHOWN = 6  # tokens on each side of a difference
LETTERS = 60


def tokens_of(path, ours):
    data = open(path, "rb").read()
    return array.array("H" if data[12] == 2 else "I", data[32:]) if ours else array.array("I", data)


class Family:
    def __init__(self, name, run):
        self.name, self.run = name, run
        self.tokenizer = os.path.join(run.models, name, "tokenizer.json")
        self.bytes = self.tokens = 0
        self.difference = None

    def compare(self, part, texts):
        """Our tokens of TEXTS, with all threads that it takes, as users run it, and theirs, of one."""
        one = dict(os.environ, RAYON_NUM_THREADS="1")
        ours, theirs = (os.path.join(self.run.folder, self.name + end) for end in (".ours", ".theirs"))
        subprocess.run(["node", os.path.join(HERE, "library.js"), self.run.library, self.tokenizer, theirs] + texts, env=one, check=True,
                       stdout=subprocess.DEVNULL)
        said = subprocess.run([self.run.train, "tokenize", "--tokenizer", os.path.dirname(self.tokenizer)] + texts + ["-o", ours],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
        if said.returncode:
            sys.exit("%s: part %d ends with %d: %s" % (self.name, part, said.returncode, said.stderr))
        ours, theirs = tokens_of(ours, True), tokens_of(theirs, False)
        if ours.tolist() != theirs.tolist():
            self.difference = self.tell(part, texts, ours, theirs)
            return
        self.bytes += sum(os.path.getsize(text) for text in texts)
        self.tokens += len(ours)

    def tell(self, part, texts, ours, theirs):
        """Where they part: which document, what is there, and the tokens around."""
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        said = subprocess.run(["node", os.path.join(HERE, "where.js"), self.run.library, self.tokenizer, str(at), str(LETTERS)] + texts,
                              check=True, stdout=subprocess.PIPE).stdout
        where = json.loads(said)
        model = json.load(open(self.tokenizer, encoding="utf-8"))
        spelled = {i: token for token, i in model["model"]["vocab"].items()}

        def show(tokens):
            around = range(max(at - SHOWN, 0), min(at + SHOWN, len(tokens)))
            return " ".join("%s%d=%r" % (">" if i == at else "", tokens[i], spelled.get(tokens[i], "added")) for i in around)
        return ("%s: part %d, document %s, its token %s, behind its character %s\n  before   %s\n  from it  %s\n  ours     %s\n  library  %s" %
                (self.name, part, os.path.basename(where["file"]), where["token"], where["character"], ascii(where["before"]),
                 ascii(where["behind"]), show(ours), show(theirs)))


class Run:
    def __init__(self, train, library, models, folder):
        self.train, self.library, self.models, self.folder = train, library, models, folder


def make_part(folder, size, seed):
    subprocess.run([sys.executable, os.path.join(HERE, "texts.py"), folder, str(size), seed], check=True)
    return folder


def say(families):
    print("%-10s %14s %14s %12s" % ("family", "bytes", "tokens", "differences"))
    for f in families:
        print("%-10s %14d %14d %12s" % (f.name, f.bytes, f.tokens, "yes" if f.difference else 0))
    sys.stdout.flush()


def go_through(families, folder, left, seed, jobs, until):
    with concurrent.futures.ThreadPoolExecutor(jobs + 1) as pool:
        coming = pool.submit(make_part, os.path.join(folder, "0"), min(left, PART), "%s/0" % seed)
        part = 0
        while left > 0 and time.monotonic() < until:
            here, left = coming.result(), left - PART
            if left > 0:
                coming = pool.submit(make_part, os.path.join(folder, str(part + 1)), min(left, PART), "%s/%d" % (seed, part + 1))
            texts = [os.path.join(here, name) for name in sorted(os.listdir(here))]
            same = [f for f in families if not f.difference]
            for f, done in [(f, pool.submit(f.compare, part, texts)) for f in same]:
                done.result()
                if f.difference:
                    print(f.difference, flush=True)
            shutil.rmtree(here)
            part += 1
            print("part %d, %s: %d bytes, %d tokens of all families" % (
                part, time.strftime("%H:%M:%S", time.gmtime()), sum(f.bytes for f in families), sum(f.tokens for f in families)),
                file=sys.stderr, flush=True)


def main():
    train, library, models, folder, mib, seed, jobs, minutes = sys.argv[1:9]
    run = Run(train, library, models, folder)
    families = [Family(name, run) for name in sys.argv[9:]]
    go_through(families, folder, int(mib) << 20, seed, int(jobs), time.monotonic() + 60 * float(minutes))
    say(families)
    sys.exit(any(f.difference for f in families))


if __name__ == "__main__":
    main()
