# SPDX-License-Identifier: Apache-2.0
#
# A real store (swift_server.py), a proxy in front of it that does harm when a story asks for it, and the tool that makes one
# transfer. Each is gone with the test.

import argparse
import http.client
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

import botocore.session
import tap
from botocore.config import Config

HERE = os.path.dirname(os.path.abspath(__file__))
KEY, SECRET = "test:tester", "hush-hush-secret"
stories = []


def story(tell):
    stories.append(tell)
    return tell


class Swift:
    """One server with one user. AHEAD is how many seconds its clock is ahead."""

    def __init__(self, ahead=0):
        self.folder = tempfile.mkdtemp(prefix="swift-")
        command = ["/usr/bin/python3", "-B", os.path.join(HERE, "swift_server.py"), os.path.join(self.folder, "s"), str(ahead), KEY + ":" + SECRET]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=tap.die_with_parent)
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            raise RuntimeError("the store does not start: python3-swift has to be installed")
        self.port = int(line)
        self.endpoint = "http://127.0.0.1:%d" % self.port

    def client(self):
        """Amazon's own client for Python, to compare with."""
        return botocore.session.get_session().create_client(
            "s3", region_name="us-east-1", endpoint_url=self.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder)


class Request:
    """One request as the proxy saw it."""

    def __init__(self, line, headers, number):
        self.method, self.target = line.split()[:2]
        self.number = number
        self.headers = headers
        url = urllib.parse.urlsplit(self.target)
        self.path, self.query = url.path, dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.body = b""

    def __repr__(self):
        return "%s %s %s" % (self.method, self.path, self.query)


class Answer:
    """What the proxy answers by itself, or what becomes of the server's answer."""

    def __init__(self, status=None, code="", body=None, headers=(), cut=None, flip=False, stall=False, drop_request=False, drop_answer=False):
        self.status, self.headers, self.cut, self.flip = status, list(headers), cut, flip
        self.stall, self.drop_request, self.drop_answer = stall, drop_request, drop_answer
        self.body = body if body is not None else ("<Error><Code>%s</Code><Message>as planned</Message></Error>" % code).encode()


class Proxy:
    """Passes requests on to PORT. PLAN gets each one and says with an Answer what to do to it; None: nothing. DONE is called as a
    PUT that was passed on is over."""

    def __init__(self, port, plan=lambda request: None, tls=None, done=lambda: None):
        self.to, self.plan, self.tls, self.done = port, plan, tls, done
        self.requests, self.stalled = [], threading.Event()
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.endpoint = "http%s://127.0.0.1:%d" % ("s" if tls else "", self.port)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as reader:
                while self.serve_one(connection, reader):
                    pass
        except OSError:
            pass

    def serve_one(self, connection, reader):
        line = reader.readline().decode()
        if not line:
            return False
        headers = http.client.parse_headers(reader)
        with self.lock:
            request = Request(line, headers, len(self.requests))
            self.requests.append(request)
        answer = self.plan(request) or Answer()
        if answer.drop_request:
            reader.read(1000)
            return False
        if headers.get("Expect"):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = reader.read(int(headers.get("Content-Length", 0)))
        if answer.stall:
            self.stalled.set()
            select.select([connection], [], [], 120)
            return False
        if answer.status:
            return self.send(connection, request, answer.status, answer.headers, answer.body, answer)
        return self.pass_on(connection, request, answer)

    def pass_on(self, connection, request, answer):
        server = http.client.HTTPConnection("127.0.0.1", self.to, timeout=120)
        target = urllib.parse.urlsplit(request.target)
        path = target.path + ("?" + target.query if target.query else "")
        server.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            if name.lower() not in ("expect", "connection", "proxy-connection"):
                server.putheader(name, value)
        server.endheaders(request.body)
        got = server.getresponse()
        body = got.read()
        headers = [(n, v) for n, v in got.getheaders() if n.lower() not in ("connection", "transfer-encoding")]
        server.close()
        if request.method == "PUT":
            self.done()
        if answer.drop_answer:
            return False
        return self.send(connection, request, got.status, headers, body, answer)

    def send(self, connection, request, status, headers, body, answer):
        if not any(name.lower() == "content-length" for name, _ in headers) and status != 204:
            headers.append(("Content-Length", str(len(body))))
        if answer.flip:
            body = bytes([body[0] ^ 1]) + body[1:]
        head = "HTTP/1.1 %d As planned\r\n" % status + "".join("%s: %s\r\n" % h for h in headers) + "\r\n"
        connection.sendall(head.encode("latin-1"))
        if request.method != "HEAD":
            connection.sendall(body if answer.cut is None else body[:answer.cut])
        return answer.cut is None

    def count(self, method, **query):
        return len([r for r in self.requests if r.method == method and all(k in r.query for k in query)])

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept() would keep it open
        self.socket.close()


class Result:
    def __init__(self, status, text):
        self.status, self.text = status, text
        self.lines = text.splitlines()
        self.retries = [line for line in self.lines if line.startswith("retry: ")]
        if SECRET in text:
            raise AssertionError("a secret is in %r" % text)

    def expect(self, pattern):
        if not re.search(pattern, self.text, re.M):
            raise AssertionError("no %r in %r" % (pattern, self.text))
        return self


class Stage:
    """What a story has: the store, a bucket of its own, a folder, and the tool."""

    def __init__(self, tools, swift, number):
        self.tools, self.swift = tools, swift
        self.client = swift.client()
        self.bucket = "bucket-%d" % number
        self.client.create_bucket(Bucket=self.bucket)
        self.url = "s3://%s/runs/a" % self.bucket
        self.folder = tempfile.mkdtemp(prefix="story-")
        self.proxies = []
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
        self.env.update(HOME=home, AWS_EC2_METADATA_DISABLED="true", AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)

    def proxy(self, plan=lambda request: None, **how):
        self.proxies.append(Proxy(self.swift.port, plan, **how))
        return self.proxies[-1]

    def start(self, *words, to=None, url=None, env=None, **options):
        options = ["%s=%s" % o for o in options.items()] + ["endpoint=" + (to or self.swift).endpoint]
        return subprocess.Popen([self.tools.tool, url or self.url, *options, *map(str, words)], env=dict(self.env, **(env or {})),
                                stdout=subprocess.PIPE, text=True, preexec_fn=tap.die_with_parent)

    def run(self, *words, status=0, **how):
        process = self.start(*words, **how)
        text = process.communicate()[0]
        if process.returncode != status:
            raise AssertionError("%s ended with %d: %s" % (words, process.returncode, text))
        return Result(process.returncode, text)

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, size, seed=1):
        """SIZE bytes that differ everywhere, and by SEED."""
        import random
        with open(self.path(name), "wb") as f:
            f.write(random.Random(seed).randbytes(size))
        return self.path(name)

    def content(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def stored(self, key):
        return self.client.get_object(Bucket=self.bucket, Key="runs/a/" + key)["Body"].read()

    def store(self, key, body):
        self.client.put_object(Bucket=self.bucket, Key="runs/a/" + key, Body=body)

    def uploads(self):
        return self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])

    def parts(self, key):
        """Of the upload of KEY that was begun."""
        parts, marker = [], 0
        for upload in self.uploads():
            while upload["Key"] == "runs/a/" + key:
                page = self.client.list_parts(Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"], PartNumberMarker=marker)
                parts += [part["PartNumber"] for part in page.get("Parts", [])]
                if not page["IsTruncated"]:
                    break
                marker = page["NextPartNumberMarker"]
        return sorted(parts)

    def wait_for_parts(self, key, wanted):
        end = time.monotonic() + 100
        while self.parts(key) != wanted:
            if time.monotonic() > end:
                raise AssertionError("the store has the parts %r, not %r" % (self.parts(key), wanted))

    def close(self):
        for proxy in self.proxies:
            if proxy.socket.fileno() >= 0:
                proxy.close()
        shutil.rmtree(self.folder)


def tls_context(folder):
    """A certificate for 127.0.0.1 that signs itself, and what serves with it."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


def main():
    tap.start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--sign", required=True)
    parser.add_argument("names", nargs="*")
    tools = parser.parse_args()
    swift = Swift()
    try:
        for number, tell in enumerate(stories):
            if tools.names and tell.__name__ not in tools.names:
                continue

            def run(tell=tell, number=number):
                stage = Stage(tools, swift, number)
                try:
                    tell(stage)
                finally:
                    stage.close()
            tap.case(tell.__doc__, run)
    finally:
        swift.stop()
    tap.done()
