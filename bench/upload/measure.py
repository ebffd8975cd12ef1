# SPDX-License-Identifier: Apache-2.0
"""measure.py TOOL MIB ROUNDS: what upload.sh prints."""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import botocore.session
import store
from botocore.config import Config

BUCKET = "bench"
PART = 16  # MiB: as large as ours


def signed_url(swift):
    """Where curl, which knows nothing of keys, may put one object."""
    s3 = botocore.session.get_session().create_client(
        "s3", region_name="us-east-1", endpoint_url=swift.endpoint, aws_access_key_id=store.KEY, aws_secret_access_key=store.SECRET,
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"))
    s3.create_bucket(Bucket=BUCKET)
    return s3.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": "curl"}, ExpiresIn=86400)


def clients(tool, swift, folder):
    """Commands that put FOLDER/file, and what they need in their environment."""
    file, part = os.path.join(folder, "file"), os.path.join(folder, "part")
    parts = os.path.getsize(file) // os.path.getsize(part)
    url = signed_url(swift)
    keys = {"AWS_ACCESS_KEY_ID": store.KEY, "AWS_SECRET_ACCESS_KEY": store.SECRET}
    s3cmd = os.path.join(folder, "s3cmd")
    with open(s3cmd, "w", encoding="utf-8") as f:
        host = "127.0.0.1:%d" % swift.port
        f.write("[default]\naccess_key = %s\nsecret_key = %s\nhost_base = %s\nhost_bucket = %s\nuse_https = False\n" % (
            store.KEY, store.SECRET, host, host))
    rclone = {"RCLONE_CONFIG": os.path.join(folder, "none"), "RCLONE_CONFIG_S_TYPE": "s3", "RCLONE_CONFIG_S_PROVIDER": "Other",
              "RCLONE_CONFIG_S_ENDPOINT": swift.endpoint, "RCLONE_CONFIG_S_ACCESS_KEY_ID": store.KEY,
              "RCLONE_CONFIG_S_SECRET_ACCESS_KEY": store.SECRET, "RCLONE_CONFIG_S_NO_CHECK_BUCKET": "true"}
    return {
        "curl": (["curl", "-sS", "--fail", "-T", file, url], {}),
        "parts": (["curl", "-sS", "--fail", *["-T", part, url] * parts], {}),
        "dtrun": ([tool, "s3://" + BUCKET, "endpoint=" + swift.endpoint, "put", "dtrun", file], keys),
        "s3cmd": (["s3cmd", "--config", s3cmd, "--quiet", "--no-progress", "put", file, "s3://%s/s3cmd" % BUCKET], {}),
        "rclone": (["rclone", "copyto", "--ignore-times", file, "s:%s/rclone" % BUCKET], rclone),
    }


def put(words, env):
    """Seconds, and seconds of processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
    done = subprocess.run(words, env={**clean, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit("measure.py: %s ended with %d: %s" % (words[0], done.returncode, done.stdout))
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Sink:
    """sink.py, in the place of a store."""

    def __init__(self, milliseconds):
        self.process = subprocess.Popen([sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "sink.py"), str(milliseconds)],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.endpoint = "http://127.0.0.1:%d" % self.port

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def measure(server, what, names, tool, folder, rounds):
    try:
        commands = {name: command for name, command in clients(tool, server, folder).items() if name in names}
        took = {name: [] for name in commands}
        for _ in range(rounds):
            for name, (words, env) in commands.items():
                took[name].append(put(words, env))
    finally:
        server.stop()
    mib = os.path.getsize(os.path.join(folder, "file")) >> 20
    print("%s: %d MiB, %d rounds, load %.1f" % (what, mib, rounds, os.getloadavg()[0]))
    of_curl = statistics.median(t for t, _ in took["curl"])
    for name, times in took.items():
        middle = statistics.median(t for t, _ in times)
        print("%-7s %7.1f MiB/s  %5.2f of curl's  %6.2f s of processor for a GiB" % (
            name, mib / middle, of_curl / middle, statistics.median(c for _, c in times) * 1024 / mib), flush=True)


def main(tool, mib, rounds):
    folder = tempfile.mkdtemp(prefix="upload-")
    try:
        for name, size in ("file", mib), ("part", PART):
            with open(os.path.join(folder, name), "wb") as f:
                for _ in range(size):
                    f.write(os.urandom(1 << 20))
        measure(store.Swift(), "Swift", ("curl", "parts", "dtrun", "s3cmd", "rclone"), tool, folder, rounds)
        for milliseconds in 0, 30:
            print()
            measure(Sink(milliseconds), "a sink, %d ms" % milliseconds, ("curl", "parts", "dtrun"), tool, folder, rounds)
    finally:
        shutil.rmtree(folder)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
