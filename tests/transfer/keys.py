# SPDX-License-Identifier: Apache-2.0
#
# Where credentials come from: servers of a machine, a container and an identity that are like Amazon's, and files. The store
# that is asked with them is real, and checks each signature.

import http.server
import json
import os
import threading
import time
import urllib.parse

import store
import tap


class Giver:
    """A server that hands out keys. ANSWER gets the handler and its body, and returns a status and a text."""

    def __init__(self, answer):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                asked.append((self.command, self.path))
                status, text = answer(self, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())
            do_GET = do_PUT = do_POST = handle_any

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def date(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def keys(seconds=3600, secret=store.SECRET):
    return json.dumps({"Code": "Success", "AccessKeyId": store.KEY, "SecretAccessKey": secret, "Token": "session-token", "Expiration": date(seconds)})


NONE = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def machine(seconds=3600):
    def answer(handler, body):
        if handler.command == "PUT" and handler.path == "/latest/api/token":
            return (200, "machine-token") if handler.headers["X-aws-ec2-metadata-token-ttl-seconds"] else (400, "")
        if handler.headers["X-aws-ec2-metadata-token"] != "machine-token":
            return 401, ""
        path = handler.path.removeprefix("/latest/meta-data/iam/security-credentials/")
        return (200, "the-role\n") if path == "" else (200, keys(seconds)) if path == "the-role" else (404, "")
    return answer


@store.story
def of_the_machine(s):
    """the metadata service of the machine is asked with a token, and once while its keys are good"""
    with Giver(machine()) as giver:
        env = dict(NONE, AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url + "/")
        proxy = s.proxy()
        s.run("put", "k", s.file("in", 6 << 20), to=proxy, part=5 << 20, env=env)
        tap.check_equal(len(giver.asked), 3, "questions in %r" % giver.asked)
        tap.check_equal({r.headers["x-amz-security-token"] for r in proxy.requests}, {"session-token"}, "session tokens")
    with Giver(lambda *_: (404, "<html>")) as giver:
        s.run("list", "", "deep", env=dict(env, AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url), status=1).expect(
            r"credentials of the machine's metadata service: it answers 404; set AWS_ACCESS_KEY_ID")


@store.story
def that_pass_away(s):
    """keys that pass away soon are renewed before they are used, and those that the store calls expired once"""
    with Giver(machine(60)) as giver:
        env = dict(NONE, AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url)
        s.run("put-bytes", "k", "x", env=env)
        tap.check_equal(len(giver.asked), 6, "questions in %r" % giver.asked)
    with Giver(machine()) as giver:
        env = dict(env, AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url)
        proxy = s.proxy(lambda request: store.Answer(400, "ExpiredToken") if request.number == 0 else None)
        got = s.run("put-bytes", "k", "x", to=proxy, env=env).expect(r"^retry: .*400 ExpiredToken.*; again with new credentials$")
        tap.check_equal((len(got.retries), len(giver.asked)), (1, 6), "retries, and questions")
        proxy = s.proxy(lambda request: store.Answer(400, "ExpiredToken"))
        got = s.run("put-bytes", "k", "x", to=proxy, env=env, status=1).expect("ExpiredToken.*; the credentials have passed away: get new ones")
    s.run("put-bytes", "k", "x", to=proxy, status=1).expect("ExpiredToken")  # those of the environment stay what they are


@store.story
def that_cannot_be_renewed(s):
    """keys are used until they are over, when who hands them out is away"""
    for seconds, status in ((60, 0), (-1, 1)):
        good = machine(seconds)
        with Giver(lambda handler, body: good(handler, body) if len(giver.asked) <= 3 else (500, "away")) as giver:
            env = dict(NONE, AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url)
            got = s.run("put-bytes", "k", "x", env=env, status=status)
            tap.check_equal("metadata service: it answers 500" in got.text, status == 1, got.text)


@store.story
def that_come_late(s):
    """a service that has no keys at first is asked again by the request"""
    good, away = machine(), 3
    with Giver(lambda handler, body: good(handler, body) if len(giver.asked) > away else (500, "away")) as giver:
        env = dict(NONE, AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT=giver.url)
        s.run("put-bytes", "k", "x", env=env)
        tap.check_equal(len(giver.asked), away + 3, "questions in %r" % giver.asked)


@store.story
def of_a_container(s):
    """the endpoint of a container is asked with the token of a file, and no other host without TLS"""
    with open(s.path("token"), "w") as f:
        f.write("container-token\n")

    def answer(handler, body):
        good = handler.headers["Authorization"] == "container-token" and handler.path == "/v2/credentials?id=1"
        return (200, keys()) if good else (403, "")
    with Giver(answer) as giver:
        env = dict(NONE, AWS_CONTAINER_CREDENTIALS_FULL_URI=giver.url + "/v2/credentials?id=1", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=s.path("token"))
        s.run("put-bytes", "k", "x", env=env)
        env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = ""
        s.run("put-bytes", "k", "x", env=dict(env, AWS_CONTAINER_AUTHORIZATION_TOKEN="container-token"))
        s.run("put-bytes", "k", "x", env=dict(env, AWS_CONTAINER_AUTHORIZATION_TOKEN="wrong"), status=1).expect(
            r"credentials of the container's endpoint: it answers 403$")
    for url in ("http://192.0.2.1/x", "http://127.0.0.1@192.0.2.1/x", "file:///etc/passwd"):
        s.run("list", "", "deep", env=dict(env, AWS_CONTAINER_CREDENTIALS_FULL_URI=url), status=1).expect("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    with Giver(lambda *_: (200, "{\"AccessKeyId\": \"half " + store.SECRET + "\"}")) as giver:
        s.run("list", "", "deep", env=dict(env, AWS_CONTAINER_CREDENTIALS_FULL_URI=giver.url), status=1).expect("its answer has no SecretAccessKey")


@store.story
def of_a_web_identity(s):
    """a token of a web identity is exchanged for keys; it is in no URL"""
    role = "arn:aws:iam::123456789012:role/train"
    busy = []
    with open(s.path("token"), "w") as f:
        f.write("web+token/=")

    def answer(handler, body):
        form = dict(urllib.parse.parse_qsl(body))
        if busy:
            return busy.pop()
        if (form["Action"], form["RoleArn"], form["WebIdentityToken"]) != ("AssumeRoleWithWebIdentity", role, "web+token/="):
            return 400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>"
        return 200, ("<AssumeRoleWithWebIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleWithWebIdentityResult>"
                     "<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>t</SessionToken>"
                     "<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
                     % (store.KEY, store.SECRET, date(3600)))
    with Giver(answer) as giver:
        env = dict(NONE, AWS_ENDPOINT_URL_STS=giver.url, AWS_ROLE_ARN=role, AWS_WEB_IDENTITY_TOKEN_FILE=s.path("token"))
        s.run("put-bytes", "k", "x", env=env)
        tap.check_equal(giver.asked, [("POST", "/")], "questions")
        busy += [(400, "<ErrorResponse><Error><Code>%s</Code></Error></ErrorResponse>" % code) for code in ("IDPCommunicationError", "Throttling")]
        s.run("put-bytes", "k", "x", env=env)
        tap.check_equal(len(giver.asked), 4, "questions in %r" % giver.asked)
        s.run("list", "", "deep", env=dict(env, AWS_ROLE_ARN="other"), status=1).expect(
            r"credentials for a web identity: it answers 400 InvalidIdentityToken$")
        s.run("list", "", "deep", env=dict(env, AWS_ROLE_ARN=""), status=1).expect("AWS_ROLE_ARN is not")
        s.run("list", "", "deep", env=dict(env, AWS_WEB_IDENTITY_TOKEN_FILE=s.path("none")), status=1).expect("cannot open .*/none")


@store.story
def of_a_profile(s):
    """files of profiles bring keys, region and endpoint"""
    aws = os.path.join(s.folder, "home", ".aws")
    os.mkdir(aws)
    with open(os.path.join(aws, "credentials"), "w") as f:
        f.write("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n\n[train]\naws_access_key_id = %s\naws_secret_access_key = %s\n"
                % (store.KEY, store.SECRET))
    with open(os.path.join(aws, "config"), "w") as f:
        f.write("[profile train]\nregion = us-east-1\nendpoint_url = %s\n[profile tool]\ncredential_process = /bin/keys\n" % s.swift.endpoint)
    s.run("put-bytes", "k", "x", env=NONE, profile="train")
    s.run("put-bytes", "k", "x", env={"AWS_PROFILE": "train", **NONE})
    s.run("put-bytes", "k", "x", env=NONE, status=1).expect("403")
    s.run("put-bytes", "k", "x", env=NONE, profile="tool", status=1).expect("the keys of the profile come from a program")
    s.run("put-bytes", "k", "x", env=NONE, profile="none", status=1).expect("has the profile \"none\"")
    s.run("put-bytes", "k", "x", env={"AWS_PROFILE": "tool"})  # the environment's keys go before a profile's
    s.run("put-bytes", "k", "x", env=dict(NONE, AWS_SHARED_CREDENTIALS_FILE=os.path.join(aws, "config"), AWS_PROFILE="tool"), status=1)
    no_option = s.start("get-bytes", "k", 9, to=Nowhere, env=dict(NONE, AWS_PROFILE="train"))
    tap.check_equal(no_option.communicate()[0].startswith("error"), True, "an endpoint that is given goes before the profile's")


class Nowhere:
    endpoint = "http://127.0.0.1:1/ "


@store.story
def another_region(s):
    """a bucket that is in another region is asked for there, once"""
    def plan(request):
        region = request.headers["Authorization"].split("/")[2]
        if region != "eu-north-1":
            return store.Answer(400, body=b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>")
        return store.Answer(200)
    got = s.run("put-bytes", "k", "x", to=s.proxy(plan), region="us-west-1").expect(r"^retry: .*; again for the region eu-north-1$")
    tap.check_equal(len(got.retries), 1, "retries")
    s.run("put-bytes", "k", "x", region="US/..", status=1).expect("is no name of a region")


store.main()
