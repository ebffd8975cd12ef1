#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_image.py TREE VERSION FOLDER: writes a container image into FOLDER, as an OCI archive, and prints its path.
make_image.py --root TREE FOLDER: writes the files of that image into FOLDER.

TREE is what "meson install" made below its prefix. The image has the programs, what they load, and nothing else: no
shell, no package manager. "podman load" and "skopeo copy oci-archive:FILE" take the archive; Containerfile makes the same by
way of a container engine."""
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True
from tree import elf_facts, installed, system_library  # noqa: E402

USER = 65532
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# What people read or compile with, units, GPUs; and UCX, which brings its own folder of modules.
LEFT_OUT = re.compile(r"include/|share/|lib/(systemd|pkgconfig|libdtrun|libdt_cuda)|lib/dtrun/dt_ucx|etc/")

FILES = {
    "etc/passwd": "root:x:0:0::/:/none\ndtrun:x:%d:%d::/var/lib/dtrun:/none\n" % (USER, USER),
    "etc/group": "root:x:0:\ndtrun:x:%d:\n" % USER,
    "etc/nsswitch.conf": "hosts: files dns\n",
}
# Whose, and with which rights.
FOLDERS = {"tmp": (0, 0o1777), "var/lib/dtrun": (USER, 0o700)}
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}

CONFIG = {
    "User": "%d:%d" % (USER, USER),
    "Env": ["PATH=/usr/bin"],
    "Cmd": ["dtrun-rendezvous", "--listen", "*:29400", "--state-dir", "/var/lib/dtrun"],
    "ExposedPorts": {"29400/tcp": {}},
    "Volumes": {"/var/lib/dtrun": {}},
    "WorkingDir": "/var/lib/dtrun",
    "Healthcheck": {"Test": ["CMD", "dtrun-ctl", "status", "--endpoint", "127.0.0.1:29400"], "Interval": 10 * 10**9,
                    "Timeout": 5 * 10**9},
}


def put(root, inside, path):
    """Copies PATH, and the libraries that it loads."""
    there = os.path.join(root, inside)
    if os.path.exists(there):
        return
    os.makedirs(os.path.dirname(there), exist_ok=True)
    shutil.copyfile(path, there)
    os.chmod(there, 0o755 if os.access(path, os.X_OK) else 0o644)
    facts = elf_facts(path)
    for library in facts[1] if facts else ():
        place = "usr/lib64/" if library.startswith("ld-linux") else "usr/lib/"
        put(root, place + library, system_library(library))


def fill(root, tree):
    for inside, path in installed(tree):
        if not LEFT_OUT.match(inside):
            put(root, "usr/" + inside, path)
    for inside, text in FILES.items():
        os.makedirs(os.path.dirname(os.path.join(root, inside)), exist_ok=True)
        with open(os.path.join(root, inside), "w") as f:
            f.write(text)
    put(root, CERTIFICATES[1:], CERTIFICATES)
    for inside, (_, mode) in FOLDERS.items():
        os.makedirs(os.path.join(root, inside))
        os.chmod(os.path.join(root, inside), mode)
    for inside, target in LINKS.items():
        os.symlink(target, os.path.join(root, inside))


def own(entry):
    """As the same file of everybody's image."""
    entry.uid, entry.mode = FOLDERS.get(entry.name, (0, entry.mode))
    entry.gid, entry.uname, entry.gname, entry.mtime = entry.uid, "", "", 0
    return entry


def archive(folder):
    """FOLDER as the bytes of a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in sorted(os.listdir(folder)):
            t.add(os.path.join(folder, name), name, filter=own)
    return out.getvalue()


class Layout:
    """A folder with what "skopeo" calls oci:FOLDER."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "blobs/sha256"))

    def blob(self, content, media):
        digest = hashlib.sha256(content).hexdigest()
        with open(os.path.join(self.folder, "blobs/sha256", digest), "wb") as f:
            f.write(content)
        return {"mediaType": "application/vnd.oci.image." + media, "digest": "sha256:" + digest, "size": len(content)}

    def json(self, what, media):
        return self.blob(json.dumps(what, sort_keys=True).encode(), media)

    def write(self, files, version):
        layer = self.blob(gzip.compress(files, mtime=0), "layer.v1.tar+gzip")
        diff = "sha256:" + hashlib.sha256(files).hexdigest()
        config = self.json({"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux",
                            "config": CONFIG, "rootfs": {"type": "layers", "diff_ids": [diff]}}, "config.v1+json")
        manifest = self.json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                              "config": config, "layers": [layer]}, "manifest.v1+json")
        # podman takes the first as the image's name, containerd the second.
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "dtrun:" + version,
                                   "io.containerd.image.name": "docker.io/library/dtrun:" + version}
        with open(os.path.join(self.folder, "index.json"), "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
        with open(os.path.join(self.folder, "oci-layout"), "w") as f:
            json.dump({"imageLayoutVersion": "1.0.0"}, f)


def make(tree, version, folder):
    path = os.path.join(folder, "dtrun-%s-%s.oci.tar" % (version, platform.machine()))
    with tempfile.TemporaryDirectory() as tmp:
        root, layout = os.path.join(tmp, "root"), os.path.join(tmp, "layout")
        os.mkdir(root)
        fill(root, tree)
        Layout(layout).write(archive(root), version)
        with open(path, "wb") as f:
            f.write(archive(layout))
    return path


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: make_image.py TREE VERSION FOLDER, or make_image.py --root TREE FOLDER")
    if sys.argv[1] == "--root":
        fill(sys.argv[3], sys.argv[2])
    else:
        print(make(*sys.argv[1:]))


if __name__ == "__main__":
    main()
