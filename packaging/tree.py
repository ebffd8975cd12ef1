# SPDX-License-Identifier: Apache-2.0
"""What "meson install" made, and what its programs need."""
import os
import re
import subprocess
import sys


def elf_facts(path):
    """The name of this library, which others it needs, and the versions of glibc it names; None when it is no ELF file."""
    with open(path, "rb") as f:
        if f.read(4) != b"\x7fELF":
            return None
    said = subprocess.run(["objdump", "-p", "-T", path], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    return (re.findall(r"^ +SONAME +(\S+)", said, re.M), re.findall(r"^ +NEEDED +(\S+)", said, re.M),
            re.findall(r"\bGLIBC_2\.(\d+)", said))


def system_library(name):
    """Where the loader finds it."""
    said = subprocess.run(["/sbin/ldconfig", "-p"], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    # The first is that of this machine's own kind.
    found = re.search(r"^\s+%s \(.*\) => (.*)$" % re.escape(name), said, re.M)
    return os.path.realpath(found.group(1)) if found else sys.exit("there is no %s on this machine" % name)


def installed(tree):
    """The plain files of TREE, no links: (path in it, path here)."""
    for folder, _, names in os.walk(tree):
        for name in sorted(names):
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, tree)
            if not os.path.islink(path):
                # One library folder, whatever this system calls it.
                yield re.sub(r"^lib(64)?/([a-z0-9_]+-linux-gnu[a-z0-9]*/)?", "lib/", inside), path
