# SPDX-License-Identifier: Apache-2.0
#
# Objects go to a real store and to a folder, and come back; Amazon's own client looks on.

import hashlib
import os
import random
import re
import subprocess
import threading
import time

import store
import tap
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

MIB = 1 << 20
AT_ONCE = 4  # DT_TRANSFER_AT_ONCE


def there_and_back(s, **where):
    """What holds for every place."""
    s.file("in", 300000)
    s.run("put", "step-8/rank-0", s.path("in"), **where)
    s.run("head", "step-8/rank-0", **where).expect(r"^step-8/rank-0 300000 dated$")
    s.run("get", "step-8/rank-0", s.path("out"), **where)
    tap.check_equal(s.content("out") == s.content("in"), True, "the bytes are the same")
    s.run("put-range", "part", s.path("in"), 1000, 50, **where)
    s.run("put-bytes", "manifest", "hello", **where)
    s.run("put-bytes", "empty", "", **where)
    s.run("get-bytes", "manifest", 5, **where).expect(r"^5 bytes: hello$")
    s.run("get-bytes", "manifest", 4, status=1, **where).expect(r"manifest: .*it has 5 bytes, and at most 4 were expected")
    s.run("get-bytes", "empty", 5, **where).expect(r"^0 bytes: $")
    s.run("get-range", "manifest", 1, 3, **where).expect(r"^bytes: 656c6c$")
    s.run("get-range", "manifest", 3, 3, status=1, **where)
    s.run("put-bytes", "manifest", "other", **where)
    s.run("get-bytes", "manifest", 5, **where).expect(r"^5 bytes: other$")
    for words in (("get", "none", s.path("none")), ("get-bytes", "none", 9), ("get-range", "none", 0, 1), ("head", "none")):
        s.run(*words, status=3, **where)
    tap.check_equal(os.path.exists(s.path("none")), False, "a file of no object")
    listed = s.run("list", "", "deep", **where).lines
    tap.check_equal([line.split()[0] for line in listed], ["empty", "manifest", "part", "step-8/rank-0"], "all keys")
    listed = s.run("list", "", "flat", **where).lines
    tap.check_equal(listed[-1].split()[:2], ["step-8/", "folder"], "a folder")
    tap.check_equal(s.run("list", "step-", "deep", **where).lines, ["step-8/rank-0 300000 dated"], "keys of a prefix")
    tap.check_equal(s.run("list", "step-8/", "flat", **where).lines, ["step-8/rank-0 300000 dated"], "what is in a folder")
    tap.check_equal(s.run("list", "none/", "deep", **where).lines, [], "no keys")
    s.run("delete", "step-8/rank-0", **where)
    s.run("delete", "step-8/rank-0", **where)
    tap.check_equal(s.run("list", "step-", "flat", **where).lines, [], "what is left of it")
    for key in ("../x", "/x", "x/", "a//b", ""):
        s.run("put-bytes", key, "x", status=1, **where).expect("is no key below")


@store.story
def round_trip(s):
    """objects go to a store and come back"""
    there_and_back(s)
    tap.check_equal(s.stored("part"), s.content("in")[1000:1050], "what the other client gets")
    head = s.client.head_object(Bucket=s.bucket, Key="runs/a/part")
    tap.check_equal([(n.lower(), len(v)) for n, v in head["Metadata"].items()], [("dtrun-crc32c", 8)], "the checksum")
    s.store("theirs", b"from the other client")
    s.run("get-bytes", "theirs", 100).expect(r"^21 bytes: from the other client$")


@store.story
def folder(s):
    """objects go to a folder and come back"""
    there_and_back(s, url="file://" + s.path("place"))
    tap.check_equal(sorted(os.listdir(s.path("place"))), ["empty", "manifest", "part"], "files of the folder")
    tap.check_equal(s.run("list", "", "deep", url="file://" + s.path("never")).lines, [], "a folder that is not there")


@store.story
def order_in_a_folder(s):
    """a folder lists its keys by the order of bytes, and nothing that is no object"""
    where = {"url": "file://" + s.path("place")}
    for key in ("a/x", "a.txt", "a/b/y", "a0", "b"):
        s.run("put-bytes", key, "x", **where)
    os.symlink("/etc/passwd", s.path("place/link"))
    os.mkfifo(s.path("place/fifo"))
    open(s.path("place/.dt-0123"), "w").close()
    keys = [line.split()[0] for line in s.run("list", "", "deep", **where).lines]
    tap.check_equal(keys, ["a.txt", "a/b/y", "a/x", "a0", "b"], "keys")
    s.run("get-bytes", "fifo", 9, status=3, **where)


@store.story
def parts(s):
    """a large object goes up in parts, and shows how far it is"""
    s.file("in", 11 * MIB + 17)
    proxy = s.proxy()
    got = s.run("put", "big", s.path("in"), to=proxy, part=5 * MIB, progress=1)
    tap.check_equal(proxy.count("PUT", partNumber=1), 3, "parts")
    tap.check_equal(got.lines[-1], "progress: %d of %d" % (11 * MIB + 17, 11 * MIB + 17), "the last of progress")
    tap.check_equal(hashlib.sha256(s.stored("big")).digest(), hashlib.sha256(s.content("in")).digest(), "what the other client gets")
    s.run("get", "big", s.path("out"))
    tap.check_equal(s.content("out") == s.content("in"), True, "the bytes are the same")
    part = s.run("get-range", "big", 6 * MIB, 8).expect(r"^bytes: ")
    tap.check_equal(bytes.fromhex(part.lines[-1].split()[1]), s.content("in")[6 * MIB:6 * MIB + 8], "a range")
    tap.check_equal(s.uploads(), [], "uploads that are left")


class Crowd:
    """Holds requests to put something until so many are there at once, and notes how many that were at most."""

    def __init__(self, wanted):
        self.wanted, self.here, self.most, self.full = wanted, 0, 0, threading.Condition()

    def plan(self, request):
        if request.method != "PUT":
            return None
        with self.full:
            self.here += 1
            self.most = max(self.most, self.here)
            self.full.notify_all()
            if not self.full.wait_for(lambda: self.most >= self.wanted, 60):
                raise AssertionError("%d requests at once, not %d" % (self.most, self.wanted))
        return None

    def done(self):
        with self.full:
            self.here -= 1


@store.story
def parts_at_once(s):
    """several parts of an object are under way at once, and several small files"""
    s.file("in", 31 * MIB + 5)
    crowd = Crowd(AT_ONCE)
    got = s.run("put", "big", s.path("in"), to=s.proxy(crowd.plan, done=crowd.done), part=5 * MIB, progress=1)
    tap.check_equal((crowd.most, got.retries), (AT_ONCE, []), "requests at once, and retries")
    tap.check_equal(s.stored("big") == s.content("in"), True, "the bytes are the same")
    done = [int(line.split()[1]) for line in got.lines if line.startswith("progress")]
    tap.check_equal((done == sorted(done), done[-1]), (True, 31 * MIB + 5), "progress")
    crowd = Crowd(AT_ONCE)
    files = [s.file("in-%d" % i, 1000 * i, seed=i) for i in range(11)]
    s.run("put-all", "all", s.path("in"), *files, to=s.proxy(crowd.plan, done=crowd.done), part=32 * MIB)
    tap.check_equal(crowd.most, AT_ONCE, "requests at once")
    for i in range(11):
        tap.check_equal(s.stored("all/in-%d" % i) == s.content("in-%d" % i), True, "the bytes of file %d" % i)
    head = s.client.head_object(Bucket=s.bucket, Key="runs/a/all/in-5")
    tap.check_equal([n.lower() for n in head["Metadata"]], ["dtrun-crc32c"], "the checksum")
    s.run("put-all", "all", s.path("in"), *files, part=5 * MIB)
    s.run("put-all", "all", *files, url="file://" + s.path("place"))
    tap.check_equal(s.stored("all/in") == s.content("in"), True, "the bytes of the large file")
    tap.check_equal(sorted(os.listdir(s.path("place/all"))), sorted("in-%d" % i for i in range(11)), "files of the folder")


@store.story
def known_checksums(s):
    """files whose checksum is known are read once, and are no object with other bytes"""
    for name, size in (("small", 1000), ("large", 11 * MIB)):
        with open(s.path(name), "wb") as f:
            f.write(b"\0" * size)
    small, large = "%s@%08x" % (s.path("small"), 0x0f1d1d1c), "%s@%08x" % (s.path("large"), 0)
    where = {"part": 5 * MIB}
    for url in (s.url, "file://" + s.path("place")):
        for words in ((small,), (large,)):
            got = s.run("put-all", "all", *words, url=url, status=1, **where)
            says = r"its bytes are not those that were written: their CRC-32C is (\w{8}), and it was \w{8}; the file has been changed or damaged"
            crc = re.search(says, got.expect(says).text).group(1)
            path = words[0].partition("@")[0]
            s.run("head", "all/" + os.path.basename(path), url=url, status=3)
            s.run("put-all", "all", path + "@" + crc, url=url, **where)
            s.run("head", "all/" + os.path.basename(path), url=url)
    s.run("get", "all/large", s.path("out"))
    tap.check_equal(s.content("out") == s.content("large"), True, "the bytes are the same")


@store.story
def long_listings(s):
    """a listing of many pages has each key once, in order"""
    for i in range(18):
        s.store("step-%02d/rank-0" % i, b"x")
        if i % 6 == 0:
            s.store("note-%02d" % i, b"x")
    proxy = s.proxy()
    flat = [line.split()[0] for line in s.run("list", "", "flat", to=proxy).lines]
    tap.check_equal(flat, ["note-00", "note-06", "note-12"] + ["step-%02d/" % i for i in range(18)], "folders")
    tap.check_equal(proxy.count("GET") > 1, True, "several pages")
    deep = [line.split()[0] for line in s.run("list", "step-", "deep").lines]
    tap.check_equal(deep, ["step-%02d/rank-0" % i for i in range(18)], "keys")


@store.story
def odd_keys(s):
    """keys and prefixes may have any characters that a name of a file may have"""
    url = "s3://%s/r \u00e4+&=#" % s.bucket
    s.run("put-bytes", "k", "x", url=url, status=1).expect("no place for objects")
    url = url[:-1]
    for key in ("a b+c&d=e%41", "\u00e4\u20ac/~(x)!*'", "quote\"<>"):
        s.run("put-bytes", key, key, url=url)
        s.run("get-bytes", key, 100, url=url)
        listed = s.run("list", key, "deep", url=url).lines
        tap.check_equal(listed, ["%s %d dated" % (key, len(key.encode()))], "the key that is listed")
        got = s.client.get_object(Bucket=s.bucket, Key="r \u00e4+&=/" + key)["Body"].read().decode()
        tap.check_equal(got, key, "what the other client gets")


@store.story
def same_signatures(s):
    """requests are signed as Amazon's own client signs them"""
    chance = random.Random(7)
    lines, wanted = [], []
    alphabet = "abcXYZ019-._~ +%&=$@!*'()/\u00e4\u20ac"
    for _ in range(200):
        text = lambda n: "".join(chance.choice(alphabet) for _ in range(chance.randrange(1, n)))  # noqa: E731
        path, host = "/bucket/" + text(40).replace("//", "/"), "h%d.example.com" % chance.randrange(99)
        query = {"q%d%s" % (i, chance.choice("-_.~aZ")): chance.choice([text(20), "x"]) for i in range(chance.randrange(4))}
        now, payload = chance.randrange(1 << 31), hashlib.sha256(text(9).encode()).hexdigest()
        lines.append("\t".join(["PUT", host, path, str(now), payload] + ["%s=%s" % q for q in query.items()]))
        wanted.append(theirs(host, path, query, now, payload))
    got = subprocess.run([s.tools.sign], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout.splitlines()
    for line, ours, other in zip(lines, got, wanted):
        tap.check_equal(ours.replace(", ", ","), other.replace(", ", ","), "signature of %r" % line)
    tap.check_equal(len(got), 200, "signatures")


def theirs(host, path, query, now, payload):
    import urllib.parse
    request = AWSRequest("PUT", "https://" + host + urllib.parse.quote(path, safe="/~"), params=query,
                         headers={"x-amz-content-sha256": payload})
    auth = S3SigV4Auth(Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "s3", "eu-central-1")
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    auth.payload = lambda _: payload
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    return "AWS4-HMAC-SHA256 Credential=%s,SignedHeaders=%s,Signature=%s" % (
        auth.scope(request), auth.signed_headers(auth.headers_to_sign(request)), signature)


@store.story
def bucket_in_host(s):
    """a bucket may stand in the host's name"""
    class Where:
        endpoint = "http://localhost:%d" % s.swift.port
    s.run("put-bytes", "k", "in the host", to=Where, style="host")
    s.run("get-bytes", "k", 99, to=Where, style="host").expect("in the host")
    tap.check_equal(s.stored("k"), b"in the host", "what the other client gets")
    tap.check_equal(s.run("list", "", "deep", to=Where, style="host").lines, ["k 11 dated"], "keys")


@store.story
def over_tls(s):
    """a store with a certificate of its own is believed with its CA file, and else not asked twice"""
    context, cert = store.tls_context(s.folder)
    proxy = s.proxy(tls=context)
    s.run("put-bytes", "k", "over TLS", to=proxy, ca_file=cert)
    s.run("get-bytes", "k", 99, to=proxy, env={"AWS_CA_BUNDLE": cert}).expect("over TLS")
    got = s.run("get-bytes", "k", 99, to=proxy, status=1).expect(r"k: getting it: .*certificate")
    tap.check_equal(got.retries, [], "retries")
    tap.check_equal(len(proxy.requests), 2, "requests that came through")


@store.story
def behind_a_proxy(s):
    """a proxy of the environment is used, unless NO_PROXY has the host"""
    proxy = s.proxy()
    s.run("put-bytes", "k", "by way of", env={"http_proxy": proxy.endpoint})
    tap.check_equal([r.target.startswith("http://127.0.0.1:%d/" % s.swift.port) for r in proxy.requests], [True], "requests to the proxy")
    s.run("get-bytes", "k", 99, env={"http_proxy": proxy.endpoint, "no_proxy": "127.0.0.1"}).expect("by way of")
    tap.check_equal(len(proxy.requests), 1, "requests to the proxy")


@store.story
def bandwidth(s):
    """a limit of bandwidth is kept, to a store and to a folder"""
    s.file("in", 3 * MIB)
    for url in (s.url, "file://" + s.path("place")):
        begun = time.monotonic()
        s.run("put", "k", s.path("in"), url=url, bandwidth=2 * MIB)
        took = time.monotonic() - begun
        tap.check_equal(took > 0.9, True, "%s: 3 MiB at 2 MiB a second took more than 0.9 s (%.2f)" % (url, took))
    s.file("in", 16 * MIB)
    begun = time.monotonic()
    s.run("put", "k", s.path("in"), part=5 * MIB, bandwidth=16 * MIB)
    took = time.monotonic() - begun
    tap.check_equal(took > 0.9, True, "four parts of 16 MiB at once, at 16 MiB a second, took more than 0.9 s (%.2f)" % took)


@store.story
def refusals(s):
    """what cannot go well is said at once, with what to do and without secrets"""
    for env, says in (({"AWS_SECRET_ACCESS_KEY": "wrong"}, r"403 SignatureDoesNotMatch .*; the secret key does not belong"),
                      ({"AWS_ACCESS_KEY_ID": "test:nobody"}, r"403 (InvalidAccessKeyId|AccessDenied|SignatureDoesNotMatch)"),
                      ({"AWS_ACCESS_KEY_ID": ""}, r"there are no credentials; set AWS_ACCESS_KEY_ID"),
                      ({"AWS_SECRET_ACCESS_KEY": ""}, r"AWS_SECRET_ACCESS_KEY is not"),
                      ({"AWS_PROFILE": "none"}, r"has the profile \"none\"")):
        got = s.run("put-bytes", "k", "x", env=env, status=1).expect(says)
        tap.check_equal(got.retries, [], "retries")
    gone = "s3://none-such/a"
    for words in (("put-bytes", "k", "x"), ("get-bytes", "k", 9), ("list", "", "deep")):
        s.run(*words, url=gone, status=1).expect(r"404 NoSuchBucket.*; make the bucket first|there is no bucket none-such")
    s.run("head", "k", url=gone, status=1).expect(r"there is no bucket none-such; make it first")
    s.run("put", "k", s.path("none"), status=1).expect(r"cannot open .*/none: No such file")
    s.run("put", "k", s.folder, status=1).expect(r"no ordinary file")
    s.run("put-range", "k", s.file("short", 10), 5, 6, status=1).expect(r"the file has become shorter than 11 bytes")


store.main()
