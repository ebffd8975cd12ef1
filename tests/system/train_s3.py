# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints in a real object store, by way of a proxy that does harm when a story asks for it.

import os
import shutil
import sys

import tap
import training

sys.path.insert(0, os.path.join(training.TOP, "tests", "transfer"))
import store  # noqa: E402

SWIFT = store.Swift()
buckets = []


class Bucket:
    """One of a story's own, by way of a proxy, and where a run finds it. PLAN as of store.Proxy."""

    def __init__(self, plan=lambda request: None):
        self.proxy = store.Proxy(SWIFT.port, plan)
        self.client = SWIFT.client()
        self.name = "runs-%d" % len(buckets)
        buckets.append(self)
        self.client.create_bucket(Bucket=self.name)
        self.url = "s3://%s/llama/a" % self.name
        self.env = {"AWS_ENDPOINT_URL_S3": self.proxy.endpoint, "AWS_ACCESS_KEY_ID": store.KEY, "AWS_SECRET_ACCESS_KEY": store.SECRET,
                    "AWS_EC2_METADATA_DISABLED": "true"}

    def keys(self):
        found = []
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name):
            found += [o["Key"] for o in page.get("Contents", [])]
        return sorted(found)

    def checkpoints(self):
        return sorted({k.split("/")[2] for k in self.keys() if k.endswith("/state.json")})


def no_secret(program):
    tap.check_equal([line for line in program.lines if store.SECRET in line], [], "lines with a secret")


@training.story
def comes_back(s):
    """a run that has lost its disk goes on from the bucket, to the same losses"""
    bucket = Bucket()
    whole = s.config("whole.json", stage=1, steps=30)
    s.run(whole, world=2)
    c = s.config("c.json", stage=1, steps=30, save_every=10, save_dir=s.path("ckpt"), upload_to=bucket.url, upload_keep_last=1)
    no_secret(s.run(c, "--set", "train.steps=20", world=2, env=bucket.env))
    tap.check_equal(bucket.checkpoints(), ["step-00000020"], "checkpoints in the bucket")
    shutil.rmtree(s.path("ckpt"))
    program = s.run(c, world=2, env=bucket.env)
    program.expect(r"fetching step 20 from s3://")
    program.expect(r"resumed from .*/ckpt/step-00000020: step 20")
    tap.check_equal(s.losses(c), s.losses(whole), "losses")
    fetched = s.start_words([s.tools.train, "fetch", bucket.url, "-o", s.path("got")], env=bucket.env)
    fetched.expect(r"step-00000030: every byte is as it was written")
    tap.check_equal(fetched.end(), 0, "exit status of fetch")


@training.story
def one_file_is_refused(s):
    """a file that the store refuses: the warning names rank, file and cause, what is there is no checkpoint, the run goes on"""
    def refuse(request):
        if request.method in ("PUT", "POST") and "exp_avg_sq" in request.path:
            return store.Answer(403, "AccessDenied")
        return None
    bucket = Bucket(refuse)
    c = s.config(stage=1, steps=20, save_every=10, save_dir=s.path("ckpt"), upload_to=bucket.url)
    program = s.run(c, world=2, env=bucket.env)
    program.expect(r"step \d+ is not uploaded to s3://.*: rank \d: .*exp_avg_sq.safetensors.*403.*; it is safe in .*/ckpt/step-")
    program.expect(r"done: step 20, .* saved in ")
    no_secret(program)
    tap.check_equal(bucket.checkpoints(), [], "checkpoints in the bucket")
    bucket.proxy.plan = lambda request: None
    s.run(c, world=2, env=bucket.env).expect(r"step 20 is uploaded to s3://")
    tap.check_equal(bucket.checkpoints(), ["step-00000020"], "checkpoints in the bucket")


@training.story
def store_stands_still(s):
    """a store that takes nothing is in the way of no step, and holds up the end of the run for its time and no longer"""
    def stall(request):
        return store.Answer(stall=True) if request.method in ("PUT", "POST") else None
    bucket = Bucket(stall)
    c = s.config(stage=1, steps=60, save_every=5, save_dir=s.path("ckpt"), upload_to=bucket.url, upload_timeout=1)
    program = s.start(c, world=2, env=bucket.env)
    program.expect(r"step 60/60")  # all beside one upload, which takes longer than all of them
    training.wait_for(bucket.proxy.stalled.is_set, "an upload")
    program.expect(r"step \d+ is not uploaded to .*: the time to wait for it at the end of a run is over; it is safe in ")
    tap.check_equal(program.end(), 0, "exit status")
    tap.check_equal(bucket.keys(), [], "what is in the bucket")


@training.story
def store_is_away(s):
    """a store that does not answer keeps a run that has a checkpoint on its disk from coming back for seconds, not minutes"""
    bucket = Bucket()
    c = s.config(stage=1, steps=8, save_dir=s.path("ckpt"), upload_to=bucket.url, upload_timeout=1)
    s.run(c, "--set", "train.steps=4", world=2, env=bucket.env)
    bucket.proxy.plan = lambda request: store.Answer(stall=True)
    program = s.run(c, world=2, env=bucket.env)
    program.expect(r"train.upload_to: s3://.* has not answered in time; .* the run goes on from step 4 of the disk")
    program.expect(r"step 8 is not uploaded to s3://")
    program.expect(r"done: step 8, ")


@training.story
def no_credentials_at_first(s):
    """a service that hands out no credentials when a run starts costs warnings, as a store that is away does, and not the run"""
    bucket = Bucket()
    c = s.config(stage=1, steps=8, save_every=4, save_dir=s.path("ckpt"), upload_to=bucket.url)
    s.run(c, "--set", "train.steps=4", world=2, env=bucket.env)
    bucket.proxy.plan = lambda request: store.Answer(503)
    env = dict(bucket.env, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_CONTAINER_CREDENTIALS_FULL_URI=bucket.proxy.endpoint + "/keys")
    program = s.run(c, world=2, env=env)
    program.expect(r"train.upload_to: .*credentials of the container's endpoint: it answers 503.* the run goes on from step 4 of the disk")
    program.expect(r"step 8 is not uploaded to s3://.*credentials of the container's endpoint: it answers 503")
    program.expect(r"done: step 8, ")


@training.story
def wrong_secret(s):
    """with a wrong secret a run with nothing on its disk does not begin, and says why"""
    bucket = Bucket()
    c = s.config(stage=0, steps=4, save_dir=s.path("ckpt"), upload_to=bucket.url)
    env = dict(bucket.env, AWS_SECRET_ACCESS_KEY="another-secret")
    program = s.run(c, world=2, env=env, status=1)
    program.expect(r"train.upload_to: .*403.*; so a checkpoint to go on from may be lost to this run; --resume none begins anew")
    tap.check_equal([line for line in program.lines if "another-secret" in line], [], "lines with a secret")


@training.story
def a_script_of_anybodys(s):
    """dtrun --upload: what any program saves is in the bucket when it is complete, and is not uploaded again by the next job"""
    bucket = Bucket()
    os.makedirs(s.path("w", "step-1"))
    for name in ("step-1/model.pt", "last.pt"):
        with open(s.path("w", name), "wb") as f:
            f.write(os.urandom(3 << 20))
        os.utime(s.path("w", name), (1e9, 1e9))
    words = [s.tools.dtrun, "--upload", "%s=%s" % (s.path("w"), bucket.url), "--no-python", "true"]
    tap.check_equal(s.start_words(words, env=bucket.env).end(), 0, "exit status")
    tap.check_equal(bucket.keys(), ["llama/a/last.pt", "llama/a/step-1/model.pt"], "what is in the bucket")
    with open(s.path("w", "last.pt"), "rb") as f:
        tap.check_equal(bucket.client.get_object(Bucket=bucket.name, Key="llama/a/last.pt")["Body"].read() == f.read(), True, "same bytes")
    sent = bucket.proxy.count("PUT")
    tap.check_equal(s.start_words(words, env=bucket.env).end(), 0, "exit status of the next job")
    tap.check_equal(bucket.proxy.count("PUT"), sent, "uploads")


@training.story
def the_last_one_is_last(s):
    """dtrun --upload: the file of a folder that was written last goes up when all others are there, and not where one is refused"""
    def refuse(request):
        return store.Answer(403, "AccessDenied") if request.method == "PUT" and "model" in request.path else None
    for size in 1000, 17 << 20:  # in parts, and in one request
        bucket, folder = Bucket(refuse), s.path("w%d" % size)
        os.makedirs(os.path.join(folder, "step-1"))
        for name, length, written in ("model-0.pt", 1000, 1e9), ("model-1.pt", 1000, 1e9), (".metadata", size, 1e9 + 1):
            path = os.path.join(folder, "step-1", name)
            with open(path, "wb") as f:
                f.write(os.urandom(length))
            os.utime(path, (written, written))
        words = [s.tools.dtrun, "--upload", "%s=%s" % (folder, bucket.url), "--no-python", "true"]
        program = s.start_words(words, env=bucket.env)
        program.expect(r".*step-1 is not uploaded to s3://.*403")
        tap.check_equal(program.end(), 0, "exit status")
        early = [r for r in bucket.proxy.requests if r.method in ("PUT", "POST") and r.path.endswith("/.metadata")]
        tap.check_equal(early, [], "requests with the last file")
        bucket.proxy.plan = lambda request: None
        tap.check_equal(s.start_words(words, env=bucket.env).end(), 0, "exit status of the next job")
        tap.check_equal(bucket.keys(), ["llama/a/step-1/" + name for name in (".metadata", "model-0.pt", "model-1.pt")], "what is in the bucket")


try:
    training.main()
finally:
    SWIFT.stop()
