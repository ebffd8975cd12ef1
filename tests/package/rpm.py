# SPDX-License-Identifier: Apache-2.0
#
# rpm.py --build FOLDER: packaging/rpm/dtrun.spec makes packages of what a build has installed: each of its files belongs to
# one of them, and each file that the spec names is there. Speaks TAP. The build itself is not made anew: it
# stands in for the spec's sections build and install.

import argparse
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/system"))
import tap  # noqa: E402

SPEC = os.path.join(TOP, "packaging/rpm/dtrun.spec")
PACKAGES = ["dtrun", "dtrun-devel", "dtrun-libs", "dtrun-rendezvous"]


def said(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def folders(build, tree):
    """Where this build installs, as the spec's macros."""
    options = {o["name"]: o["value"] for o in json.loads(said("meson", "introspect", build, "--buildoptions"))}
    prefix = options["prefix"]
    units = [path for path, _, names in os.walk(tree) if "dtrun-rendezvous.service" in names]
    macros = {name: os.path.join(prefix, options[name]) for name in ("bindir", "libdir", "mandir", "includedir", "datadir", "sysconfdir")}
    macros["unitdir"] = units[0][len(tree):]
    return macros


def rpmbuild(folder, tree, macros):
    """The packages, and their files."""
    documents = "tar -C %s -cf - LICENSE README.md CHANGELOG.md docs examples/kubernetes examples/slurm | tar -xf -" % shlex.quote(TOP)
    defines = {"_topdir": folder, "autosetup": documents, "meson": "true", "meson_build": "true",
               "meson_install": "cp -a %s/. %%{buildroot}" % tree, "systemd_requires": "%nil", "systemd_post": "true",
               "systemd_preun": "true", "systemd_postun_with_restart": "true", "__os_install_post": "%nil", "debug_package": "%nil",
               "_build_id_links": "none"}
    defines.update({"_" + name: path for name, path in macros.items()})
    words = [word for name, text in defines.items() for word in ("--define", "%s %s" % (name, text))]
    cuda = ["--with", "cuda"] if glob.glob(tree + macros["libdir"] + "/libdt_cuda.so") else []
    job = subprocess.run(["rpmbuild", "-bb", "--nodeps"] + words + cuda + [SPEC], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         universal_newlines=True)
    if job.returncode:
        raise AssertionError(job.stdout[-4000:])
    return {said("rpm", "-qp", "--qf", "%{NAME}", path): said("rpm", "-qlp", path).split()
            for path in glob.glob(folder + "/RPMS/*/*.rpm")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, metavar="FOLDER")
    build = parser.parse_args().build
    tap.start()
    with tempfile.TemporaryDirectory() as folder:
        tree = folder + "/tree"
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild"], env=dict(os.environ, DESTDIR=tree), check=True,
                       stdout=subprocess.DEVNULL)
        made = {}

        def builds():
            made.update(rpmbuild(folder, tree, folders(build, tree)))

        def whole():
            tap.check_equal(sorted(set(made) - {"dtrun-cuda"}), PACKAGES, "packages")
            for end, package in (("/bin/dtrun", "dtrun"), ("/bin/dtrun-rendezvous", "dtrun-rendezvous"), ("/libdtrun.so.0", "dtrun-libs"),
                                 ("/rendezvous.conf", "dtrun-rendezvous"), ("/dtrun.h", "dtrun-devel"), ("/dtrun.1", "dtrun"),
                                 ("/operations.md", "dtrun-rendezvous"), ("/kubernetes/job.yaml", "dtrun-rendezvous")):
                tap.check_equal([name for name, paths in made.items() for path in paths if path.endswith(end)], [package], end)

        tap.case("the spec has all files, and no others", builds)
        tap.case("each is in its package", whole)
    tap.done()


main()
