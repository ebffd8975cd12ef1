#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_bundle.py BUILD FOLDER PROGRAM...: the files of a bundle, for scripts/bundle, which adds what a CPU says.

FOLDER gets PROGRAMs of the build tree BUILD, stripped, at the same places below build/; in lib/ the libraries that they load; the
scripts that run them; and BUNDLE, which says the glibc they want, and the libraries of CUDA that the host has to have."""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True
from tree import elf_facts, system_library  # noqa: E402

# On every Linux with glibc.
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+$|ld-linux.*")
# A host's own is the better one, where it has one.
FALLBACK = re.compile(r"lib(stdc\+\+|gcc_s)\.so\.\d+$")
# What comes with a driver, a toolkit or PyTorch.
CUDA = re.compile(r"lib(cuda|cublas|cublasLt|cudart|nccl|cudnn)\.so")
# What is opened by name: products of a host, which no program links.
OPENED = ("libopenblas.so.0",)
# Helper libraries that are there only if their library was found.
HELPERS = ("agent/dt_topology.so",)
SCRIPTS = ("tests/gpu/quick", "tests/gpu/quick_steps.sh", "tests/gpu/quick_golden.py", "bench/gpu/attention.py", "bench/gpu/kernels.py",
           "bench/gpu/measure.py", "bench/gpu/torch_train.py", "LICENSE")


class Bundle:
    def __init__(self, folder):
        self.folder = folder
        self.glibc = 0
        self.wants = set()

    def place(self, inside):
        path = os.path.join(self.folder, inside)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def put(self, inside, path):
        """An ELF file, and the libraries that it loads."""
        there = self.place(inside)
        if os.path.exists(there):
            return
        shutil.copyfile(path, there)
        os.chmod(there, 0o755)
        subprocess.run(["strip", "--strip-unneeded", there], check=True)
        _, needed, versions = elf_facts(path)
        if not inside.startswith("lib/fallback/"):
            self.glibc = max([self.glibc, *map(int, versions)])
        for library in needed:
            if CUDA.match(library):
                self.wants.add(library)
            elif FALLBACK.match(library):
                self.put("lib/fallback/" + library, system_library(library))
            elif not EVERYWHERE.match(library):
                self.put("lib/" + library, system_library(library))

    def write(self):
        for name in SCRIPTS:
            shutil.copy(os.path.join(TOP, name), self.place(name))
        os.symlink("tests/gpu/quick", self.place("quick"))
        with open(self.place("BUNDLE"), "w", encoding="utf-8") as f:
            f.write("glibc=%d\nwants=%s\n" % (self.glibc, " ".join(sorted(self.wants - {"libcuda.so.1"}))))


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: make_bundle.py BUILD FOLDER PROGRAM...")
    build, folder, *programs = sys.argv[1:]
    bundle = Bundle(folder)
    programs += [name for name in HELPERS if os.path.exists(os.path.join(build, name))]
    for name in programs:
        bundle.put("build/" + name, os.path.join(build, name))
    for library in OPENED:
        bundle.put("lib/" + library, system_library(library))
    bundle.write()


if __name__ == "__main__":
    main()
