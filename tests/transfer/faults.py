# SPDX-License-Identifier: Apache-2.0
#
# A store that is slow, busy, wrong or gone, and what becomes of transfers then. The store is real; the proxy in front of it
# does the harm.

import os
import re
import resource
import signal
import subprocess
import threading

import store
import tap
from store import Answer

MIB = 1 << 20


def first(n, answer, method=None, **query):
    """The plan that gives the first N requests of that kind ANSWER."""
    seen = []

    def plan(request):
        is_it = method in (None, request.method) and all(k in request.query and v in (None, request.query[k]) for k, v in query.items())
        if not is_it:
            return None
        seen.append(request)
        return answer if len(seen) <= n else None
    return plan


@store.story
def busy(s):
    """a busy store is asked again, with pauses, and what it said is told"""
    for status, code in ((503, "SlowDown"), (500, "InternalError"), (429, ""), (502, "")):
        proxy = s.proxy(first(2, Answer(status, code)))
        got = s.run("put-bytes", "k", "busy %d" % status, to=proxy)
        tap.check_equal(len(got.retries), 2, "retries in %r" % got.lines)
        got.expect(r"^retry: s3://%s/runs/a/k: putting it: the store answers %d %s.*; again in \d+ ms \(attempt 2 of 8\)" % (s.bucket, status, code))
        tap.check_equal(s.stored("k"), b"busy %d" % status, "what was stored")


@store.story
def always_busy(s):
    """a store that stays busy is given up after the attempts there are"""
    proxy = s.proxy(lambda request: Answer(503, "SlowDown"))
    got = s.run("put-bytes", "k", "x", to=proxy, attempts=3, status=1)
    got.expect(r"^error \d+: s3://.*/runs/a/k: putting it: the store answers 503 SlowDown \(as planned\), after 3 attempts$")
    tap.check_equal(len(proxy.requests), 3, "requests")


@store.story
def told_when(s):
    """a store that says when to come again is heard"""
    proxy = s.proxy(first(1, Answer(503, "SlowDown", headers=[("Retry-After", "1")])))
    got = s.run("put-bytes", "k", "x", to=proxy)
    pause = int(re.search(r"again in (\d+) ms", got.text).group(1))
    tap.check_equal(1000 <= pause < 2000, True, "a pause of %d ms" % pause)


@store.story
def lost_on_the_way_up(s):
    """a connection that breaks while an object goes up is replaced"""
    s.file("in", 3 * MIB)
    for answer in (Answer(drop_request=True), Answer(drop_answer=True)):
        proxy = s.proxy(first(1, answer))
        got = s.run("put", "k", s.path("in"), to=proxy)
        tap.check_equal(len(got.retries), 1, "retries in %r" % got.lines)
        tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")


@store.story
def lost_with_tls(s):
    """a connection with TLS that breaks while an object goes up is replaced, and ends nobody"""
    s.file("in", 40 * MIB)
    context, cert = store.tls_context(s.folder)
    for _ in range(3):
        proxy = s.proxy(first(1, Answer(drop_request=True)), tls=context)
        s.run("put", "k", s.path("in"), to=proxy, ca_file=cert, part=64 * MIB)
    tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")


@store.story
def lost_on_the_way_down(s):
    """a connection that breaks again and again on the way down is taken up where it broke"""
    s.store("k", open(s.file("in", 3 * MIB), "rb").read())
    proxy = s.proxy(first(4, Answer(cut=MIB // 2), "GET"))
    s.run("get", "k", s.path("out"), to=proxy, attempts=2)
    tap.check_equal(s.content("out") == s.content("in"), True, "the bytes are the same")
    tap.check_equal([r.headers.get("Range") for r in proxy.requests], [None] + ["bytes=%d-" % (i * MIB // 2) for i in range(1, 5)], "ranges")


@store.story
def changed_on_the_way_down(s):
    """an object that is replaced while it comes down comes whole, and is the new one"""
    s.store("k", b"a" * MIB)

    def plan(request):
        if request.number == 0:
            return Answer(cut=MIB // 2)
        if request.number == 1:
            s.store("k", b"b" * MIB)
        return None
    s.run("get", "k", s.path("out"), to=s.proxy(plan))
    tap.check_equal(s.content("out") == b"b" * MIB, True, "the new bytes")


@store.story
def flipped(s):
    """bytes that are not those that were put there are no object"""
    s.run("put-bytes", "k", "right")
    got = s.run("get", "k", s.path("out"), to=s.proxy(first(1, Answer(flip=True), "GET")), status=1)
    got.expect(r"k: its bytes are not those that were put there: their CRC-32C is [0-9a-f]{8}")
    tap.check_equal([n for n in os.listdir(s.folder) if n != "home"], [], "files that are left")


@store.story
def killed(s):
    """what a killed upload has left in the store is not sent again"""
    s.file("in", 16 * MIB + 1)
    slow = s.proxy(first(1, Answer(stall=True), "PUT", partNumber="3"))
    process = s.start("put", "k", s.path("in"), to=slow, part=5 * MIB)
    tap.check_equal(slow.stalled.wait(100), True, "the third part is on its way")
    s.wait_for_parts("k", [1, 2, 4])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    tap.check_equal(len(s.uploads()), 1, "uploads that were begun")
    proxy = s.proxy()
    s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB)
    tap.check_equal([r.query["partNumber"] for r in proxy.requests if "partNumber" in r.query], ["3"], "parts that were sent")
    tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")
    tap.check_equal(s.uploads(), [], "uploads that are left")


@store.story
def killed_and_changed(s):
    """parts of other bytes are not taken for these"""
    s.file("in", 11 * MIB)
    slow = s.proxy(first(1, Answer(stall=True), "PUT", partNumber="2"))
    process = s.start("put", "k", s.path("in"), to=slow, part=5 * MIB)
    tap.check_equal(slow.stalled.wait(100), True, "the second part is on its way")
    s.wait_for_parts("k", [1, 3])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(s.path("in"), "r+b") as f:  # the first part stays, so that it alone does not tell
        f.seek(6 * MIB)
        f.write(b"other bytes")
    s.run("put", "k", s.path("in"), part=5 * MIB)
    tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")
    s.run("get", "k", s.path("out"))
    s.file("in", 11 * MIB, seed=2)
    s.run("put", "k", s.path("in"), part=5 * MIB)
    s.run("get", "k", s.path("out"))
    tap.check_equal(s.content("out") == s.content("in"), True, "the bytes are the same")


@store.story
def busy_part(s):
    """a part that is to be sent again keeps no other one waiting"""
    s.file("in", 31 * MIB)

    def plan(request):  # until all others are there
        if request.method != "PUT" or request.query.get("partNumber") != "2":
            return None
        return Answer(503, "SlowDown") if len(s.parts("k")) < 6 else None
    got = s.run("put", "k", s.path("in"), to=s.proxy(plan), part=5 * MIB, attempts=99)
    tap.check_equal({re.search("putting part . of 7", line).group() for line in got.retries}, {"putting part 2 of 7"}, "retries")
    tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")


@store.story
def stopped_with_parts(s):
    """another thread ends a call that has several parts under way"""
    s.file("in", 26 * MIB)
    proxy = s.proxy(lambda request: Answer(stall=True) if "partNumber" in request.query else None)
    process = s.start("put", "k", s.path("in"), to=proxy, part=5 * MIB)
    tap.check_equal(proxy.stalled.wait(100), True, "a part is on its way")
    process.terminate()
    text = process.communicate()[0]
    tap.check_equal((process.returncode, re.findall("it was stopped", text)), (1, ["it was stopped"]), text)


@store.story
def one_file_of_many(s):
    """of several files the one that fails is named"""
    files = [s.file("in-%d" % i, 1000) for i in range(9)]
    proxy = s.proxy(lambda request: Answer(403, "AccessDenied") if request.path.endswith("all/in-5") else None)
    got = s.run("put-all", "all", *files, to=proxy, status=1)
    got.expect(r"^error \d+: .*/in-5: s3://.*/runs/a/all/in-5: putting it: the store answers 403 AccessDenied")
    s.run("put-all", "all", *files, s.path("none"), status=1).expect(r"cannot open .*/none: No such file")


@store.story
def changed_in_line(s):
    """a small file that has another size when its turn comes is no object"""
    for size in 2000, 500:
        files = [s.file("in-%d" % i, 1000) for i in range(9)]
        lock, replaced = threading.Lock(), []

        def plan(request, size=size, lock=lock, replaced=replaced):  # before any of those in front of it is there
            with lock:
                if not replaced:
                    replaced.append(s.file("new", size))
                    os.rename(s.path("new"), s.path("in-8"))
        got = s.run("put-all", "all", *files, to=s.proxy(plan), status=1)
        got.expect(r"^error \d+: .*/in-8: it has changed since the upload began$")
        s.run("head", "all/in-8", status=3)
        s.run("put-all", "all", *files)
        tap.check_equal(s.stored("all/in-8") == s.content("in-8"), True, "the bytes are the same")
        s.run("delete", "all/in-8")


@store.story
def forgotten(s):
    """an upload that the store has forgotten is begun anew"""
    s.file("in", 6 * MIB)
    proxy = s.proxy(first(1, Answer(404, "NoSuchUpload"), "PUT", partNumber="2"))
    s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB)
    tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")


@store.story
def no_leave_to_list(s):
    """who may put but not list gets an object up in parts all the same"""
    s.file("in", 6 * MIB)
    proxy = s.proxy(first(9, Answer(403, "AccessDenied"), "GET"))
    got = s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB)
    tap.check_equal((got.retries, s.stored("k") == s.content("in")), ([], True), "retries, and that the bytes are the same")


@store.story
def the_last_answer(s):
    """parts are put together once, whatever becomes of the answer"""
    s.file("in", 6 * MIB)
    hidden = Answer(200, body=b"\n <Error><Code>InternalError</Code></Error>")
    for answer in (hidden, Answer(drop_answer=True), Answer(503, "SlowDown")):
        proxy = s.proxy(first(1, answer, "POST", uploadId=None))
        s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB)
        tap.check_equal(proxy.count("POST", uploadId=1), 2, "requests to put the parts together")
        tap.check_equal(s.stored("k") == s.content("in"), True, "the bytes are the same")
        s.run("delete", "k")
    proxy = s.proxy(first(1, Answer(200, body=b"<Error><Code>InvalidPart</Code></Error>"), "POST", uploadId=None))
    s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB, status=1).expect("putting its parts together: the store answers 200 InvalidPart")


@store.story
def stalled(s):
    """a store that moves nothing is given up after a while, and asked again"""
    got = s.run("put-bytes", "k", "x", to=s.proxy(first(1, Answer(stall=True))), patience=1000)
    got.expect(r"^retry: .*putting it: .*; again in")
    tap.check_equal(s.stored("k"), b"x", "what was stored")


@store.story
def stopped(s):
    """another thread ends a call that hangs"""
    proxy = s.proxy(lambda request: Answer(stall=True))
    process = s.start("put-bytes", "k", "x", to=proxy)
    tap.check_equal(proxy.stalled.wait(100), True, "the request is there")
    process.terminate()
    text = process.communicate()[0]
    tap.check_equal((process.returncode, re.findall("it was stopped", text)), (1, ["it was stopped"]), text)


@store.story
def stopped_in_a_pause(s):
    """another thread ends the pause between two attempts"""
    proxy = s.proxy(lambda request: Answer(503, headers=[("Retry-After", "60")]))
    process = s.start("put-bytes", "k", "x", to=proxy)
    process.stdout.readline()
    process.terminate()
    text = process.communicate()[0]
    tap.check_equal((process.returncode, re.findall("it was stopped", text)), (1, ["it was stopped"]), text)


@store.story
def skewed(s):
    """a clock that is an hour off is set by the store's, once"""
    for ahead in (3600, -3600):
        other = store.Swift(ahead)
        try:
            got = s.run("put-bytes", "k", "x", to=other, url="s3://none-such", status=1).expect("404 NoSuchBucket")
            got.expect("^retry: .*403 RequestTimeTooSkewed.*; again with the store's clock, which is -?3[56]\\d\\d s ahead of this host's$")
            tap.check_equal(len(got.retries), 1, "corrections in %r" % got.lines)
            files = [s.file("in-%d" % i, 10) for i in range(3)]  # which are signed at the same time
            s.run("put-all", "all", *files, to=other, url="s3://none-such", status=1).expect("404 NoSuchBucket")
        finally:
            other.stop()


@store.story
def bucket_gone(s):
    """a bucket that goes while an object is on its way ends that, and says so"""
    s.file("in", 6 * MIB)
    proxy = s.proxy(first(9, Answer(404, "NoSuchBucket"), "PUT", partNumber="2"))
    got = s.run("put", "k", s.path("in"), to=proxy, part=5 * MIB, status=1)
    got.expect(r"/in: s3://.*/runs/a/k: putting part 2 of 2: the store answers 404 NoSuchBucket \(as planned\); make the bucket first$")
    tap.check_equal(got.retries, [], "retries")


@store.story
def full(s):
    """a disk that is full ends a transfer and leaves nothing, here and there"""
    s.run("put", "k", s.file("in", MIB))

    def limit():
        tap.die_with_parent()
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 2, MIB // 2))
    for words in (("get", "k", s.path("out")), ("put", "copy", s.path("in"))):
        url = s.url if words[0] == "get" else "file://" + s.path("place")
        done = subprocess.run([s.tools.tool, url, "endpoint=" + s.swift.endpoint, *words], env=s.env, capture_output=True, text=True, preexec_fn=limit)
        tap.check_equal((done.returncode, re.findall("cannot write the file: File too large", done.stdout)), (1, ["cannot write the file: File too large"]), done.stdout)
        tap.check_equal("retry" in done.stdout, False, "retries in %r" % done.stdout)
    left = [n for _, _, files in os.walk(s.folder) for n in files]
    tap.check_equal(left, ["in"], "files that are left")
    got = s.run("put-bytes", "k", "x", to=s.proxy(lambda request: Answer(507)), status=1).expect("the store answers 507")
    tap.check_equal(got.retries, [], "retries")


def page(*keys, more=None):
    rows = "".join("<Contents><Key>%s</Key><Size>1</Size></Contents>" % key for key in keys)
    rows += "<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>" % more if more else ""
    return Answer(200, body=("<ListBucketResult>%s</ListBucketResult>" % rows).encode())


@store.story
def hostile_listings(s):
    """a listing that never ends, repeats itself or leads astray is not followed"""
    def lists(says, answer, status=1):
        return s.run("list", "", "deep", to=s.proxy(answer), status=status).expect(says)
    lists("larger than any that makes sense", lambda request: Answer(200, body=b"<ListBucketResult>" + b" " * (5 * MIB)))
    lists("not in their order", lambda request: page("runs/a/b", more="t%d" % request.number))
    lists("does not come to an end", lambda request: page("runs/a/%d" % request.number, more="same"))
    lists("does not come to an end", lambda request: page(more="t%d" % request.number))
    lists("keys that are elsewhere", lambda request: page("elsewhere"))
    lists("not the XML of a store", lambda request: Answer(200, body=b"<html><body>Log in<br></body></html>"))
    got = lists("^fine 1", lambda request: page("runs/a/../../etc/passwd", "runs/a//x", "runs/a/fine", "runs/a/"), status=0)
    tap.check_equal(got.lines, ["fine 1 undated"], "keys")


@store.story
def unreached(s):
    """a store that is not there is named with what was tried"""
    proxy = s.proxy()
    proxy.close()
    got = s.run("put-bytes", "k", "x", to=proxy, attempts=2, status=1)
    got.expect(r"^error \d+: s3://.*/runs/a/k: putting it: .*, after 2 attempts$")


store.main()
