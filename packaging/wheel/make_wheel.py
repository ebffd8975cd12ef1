#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_wheel.py TREE VERSION FOLDER: writes a wheel into FOLDER and prints its path.

TREE is what "meson install" made below its prefix. Its programs go into bin of the environment that the wheel is installed into,
its libraries, headers, manual pages and completions beside that, as in any other prefix; what the programs need beyond
the C library lies in lib/dtrun. Helper libraries that stand on much more use the system's, and say so where it has none. The
wheel's name says which glibc it wants: the newest that a symbol in it is of."""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
sys.dont_write_bytecode = True
from dtrun import install_hook  # noqa: E402
from tree import elf_facts, installed, system_library  # noqa: E402

# On every Linux with glibc.
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+$|ld-linux.*")
# Small, and free to be passed on: these go along.
TAKEN_ALONG = re.compile(r"lib(uv|cjson|pcre2-8|sodium|hwloc)\.so\.\d+$")
# What belongs to a system and not into an environment; and GPUs, which a package of their own is for.
LEFT_OUT = re.compile(r"etc/|lib/systemd/|lib/libdt_cuda")

METADATA = """Metadata-Version: 2.1
Name: dtrun
Version: %s
Summary: A launcher for distributed PyTorch jobs, in torchrun's place
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

`dtrun --nproc-per-node 8 train.py` where `torchrun --nproc-per-node 8 train.py` stood. `python -m dtrun` is the same,
`dtrun.run` stands in for `torch.distributed.run`, and `python -m dtrun.install_hook` makes torchrun, `accelerate launch`,
`fabric run` and `tune run` of this environment run dtrun.

Parts that use libraries of the system, which are not in this wheel:
"""


def copyright_of(path):
    """The notice of the Debian package that a library is of. Packages of /usr know their files by names in / as well."""
    for name in (path, path.replace("/usr/lib/", "/lib/", 1)):
        said = subprocess.run(["dpkg", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
        if said.returncode == 0:
            return "/usr/share/doc/%s/copyright" % said.stdout.split(":")[0]
    return sys.exit("make_wheel.py: %s is of no Debian package, so nobody knows under which terms it may be passed on" % path)


class Wheel:
    def __init__(self, version, folder):
        self.version, self.folder = version, folder
        self.files = {}      # name in the wheel: (content, whether it is a program)
        self.wanted = {}     # file: libraries of the system that it wants
        self.along = set()   # names of the libraries that go along
        self.glibc = 0

    def add(self, name, content, is_program=False):
        self.files[name] = (content if isinstance(content, bytes) else content.encode(), is_program)

    def data(self, kind, inside):
        return "dtrun-%s.data/%s/%s" % (self.version, kind, inside)

    def info(self, name):
        return "dtrun-%s.dist-info/%s" % (self.version, name)

    def add_needed(self, inside, needed):
        for library in needed:
            if EVERYWHERE.match(library) or library in self.along:
                continue
            if TAKEN_ALONG.match(library):
                self.along.add(library)
                path = system_library(library)
                self.add_installed("lib/dtrun/" + library, path)
                self.add(self.info("licenses/" + library), open(copyright_of(path), "rb").read())
            elif inside.startswith("lib/dtrun/"):
                self.wanted.setdefault(os.path.basename(inside), []).append(library)
            else:
                sys.exit("make_wheel.py: %s needs %s, which neither goes along nor is everywhere" % (inside, library))

    def add_installed(self, inside, path):
        facts = elf_facts(path)
        if facts:
            soname, needed, versions = facts
            self.glibc = max([self.glibc] + [int(version) for version in versions])
            if soname and inside.startswith("lib/lib"):
                # What "cc -ldtrun" reads.
                self.add(self.data("data", re.sub(r"\.so\..*", ".so", inside)), "INPUT(%s)\n" % soname[0])
                inside = "lib/" + soname[0]
            self.add_needed(inside, needed)
        with open(path, "rb") as f:
            if inside.startswith("bin/"):
                self.add(self.data("scripts", inside[len("bin/"):]), f.read(), True)
            else:
                self.add(self.data("data", inside), f.read(), bool(facts))

    def add_python(self):
        for name in sorted(os.listdir(os.path.join(HERE, "dtrun"))):
            if name.endswith(".py"):
                with open(os.path.join(HERE, "dtrun", name), "rb") as f:
                    self.add("dtrun/" + name, f.read())
        self.add(install_hook.NAME, install_hook.line(False))

    def tag(self):
        return "py3-none-manylinux_2_%d_%s" % (self.glibc, platform.machine())

    def add_info(self):
        wanted = "".join("\n- `%s`: %s" % (file, ", ".join(sorted(libraries))) for file, libraries in sorted(self.wanted.items()))
        self.add(self.info("METADATA"), METADATA % self.version + wanted + "\n")
        self.add(self.info("WHEEL"), "Wheel-Version: 1.0\nGenerator: dtrun\nRoot-Is-Purelib: false\nTag: %s\n" % self.tag())
        self.add(self.info("licenses/LICENSE"), open(os.path.join(TOP, "LICENSE"), "rb").read())
        rows = ["%s,sha256=%s,%d" % (name, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(),
                                     len(content))
                for name, (content, _) in sorted(self.files.items())]
        record = self.info("RECORD")
        self.add(record, "\n".join(rows + [record + ",,", ""]))

    def write(self):
        self.add_info()
        path = os.path.join(self.folder, "dtrun-%s-%s.whl" % (self.version, self.tag()))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            for name, (content, is_program) in self.files.items():
                entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes, the same wheel
                entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(entry, content)
        return path


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: make_wheel.py TREE VERSION FOLDER")
    tree, version, folder = sys.argv[1:]
    wheel = Wheel(version, folder)
    for inside, path in installed(tree):
        if not LEFT_OUT.match(inside):
            wheel.add_installed(inside, path)
    wheel.add_python()
    print(wheel.write())


if __name__ == "__main__":
    main()
