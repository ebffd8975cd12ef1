# SPDX-License-Identifier: Apache-2.0
#
# alerts.py --dtrun COMMAND --rendezvous COMMAND --ctl COMMAND --train COMMAND: what a daemon tells its receivers: servers of HTTP that take it, refuse
# it and hang, commands, and a program in the place of sendmail.

import argparse
import http.server
import json
import os
import queue
import re
import signal
import socket
import stat
import subprocess
import threading
import urllib.request

import servers
import tap
import training

parser = argparse.ArgumentParser()
parser.add_argument("--dtrun", required=True)
parser.add_argument("--rendezvous", required=True)
parser.add_argument("--ctl", required=True)
parser.add_argument("--train", required=True)
tools = parser.parse_args()
PATIENCE = 60


class Receiver:
    """A server of HTTP that answers with the statuses it was given, the last one from then on."""

    def __init__(self, *statuses):
        receiver = self
        self.statuses = list(statuses) or [200]
        self.came = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                receiver.came.put((status, self.path, self.headers["Content-Type"], body))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((servers.HOST, 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.at = "http://%s:%d" % self.server.server_address

    def next(self):
        return self.came.get(timeout=PATIENCE)

    def alert(self, name):
        """The next one that it took, which has to be this."""
        status, _, kind, body = self.next()
        tap.check_equal((status, kind), (200, "application/json"), "status and type")
        alert = json.loads(body)
        tap.check_equal(alert["alert"], name, "the alert %s" % alert)
        return alert


def daemon(*options, port=0, **environment):
    command = [tools.rendezvous, "--listen", "%s:%d" % (servers.HOST, port), *options]
    return servers.Server("dtrun-rendezvous", ["env", *("%s=%s" % pair for pair in environment.items()), *command], "stderr")


def run(server, name, *command):
    """A job of one node that meets at the server; its exit status."""
    line = [tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "%s:%d" % (servers.HOST, server.port), "--rdzv-id", name, "--nnodes",
            "1:1", "--no-python", *command]
    return subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=tap.die_with_parent).returncode


def script(name, text):
    path = os.path.join(os.environ["TMPDIR"], name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)
    return path


def fifo(name):
    path = os.path.join(os.environ["TMPDIR"], name)
    os.mkfifo(path)
    return path


def contents(path):
    """What is written into a fifo by one writer. Opening waits for the writer."""
    with open(path, encoding="utf-8") as f:
        return f.read()


def runs_that_end():
    receiver = Receiver()
    with daemon("--alert-url", receiver.at + "/hook") as server:
        tap.check_equal(receiver.alert("server_started")["state"], "raised", "state")
        tap.check_equal(run(server, "good", "true"), 0, "status of the good run")
        tap.check_equal(receiver.alert("run_ended_well")["run"], "good", "run")
        tap.check_equal(run(server, "bad", "false"), 1, "status of the bad run")
        alert = receiver.alert("run_ended_badly")
        tap.check_equal((alert["run"], alert["weight"], alert["server"]), ("bad", "error", socket.gethostname()), "of the bad run")
        tap.check_equal("rank 0 (local rank 0) exited with 1" in alert["words"], True, alert["words"])
        tap.check_equal("dtrun-ctl history" in alert["advice"], True, alert["advice"])


def reloaded():
    """SIGHUP reads all options anew; receivers stay."""
    receiver = Receiver()
    with daemon("--alert-url", receiver.at) as server:
        receiver.alert("server_started")
        server.process.send_signal(signal.SIGHUP)
        # What comes behind the reload is answered after it.
        subprocess.run([tools.ctl, "status", "--endpoint", "%s:%d" % (servers.HOST, server.port)], stdout=subprocess.DEVNULL, check=True)
        run(server, "good", "true")
        tap.check_equal(receiver.alert("run_ended_well")["run"], "good", "run")


def node(server, name):
    """A dtrun of two that make a job, once its worker runs."""
    path = os.path.join(os.environ["TMPDIR"], "runs-" + name)
    os.mkfifo(path)
    line = [tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "%s:%d" % (servers.HOST, server.port), "--rdzv-id", "kept", "--nnodes",
            "2:2", "--node-name", name, "--rdzv-conf", "is_host=false", "--no-python", "sh", "-c", 'echo >>"$0"; exec sleep 1000', path]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=tap.die_with_parent), path


def restarted():
    """A daemon that is killed while alerts are open: the next one tells their ends, and tells none of them anew."""
    receiver = Receiver()
    options = ["--alert-url", receiver.at, "--alert-level", "warning", "--state-dir", os.path.join(os.environ["TMPDIR"], "state")]
    server = daemon(*options)
    (stays, stays_runs), (lost, lost_runs) = node(server, "stays"), node(server, "lost")
    contents(stays_runs), contents(lost_runs)
    lost.kill()
    raised = {alert["alert"]: alert for alert in (json.loads(receiver.next()[3]) for _ in range(2))}
    tap.check_equal({name: alert["state"] for name, alert in raised.items()}, {"node_lost": "raised", "below_min": "raised"}, "alerts")
    server.process.kill()
    server.process.wait()
    with daemon(*options, port=server.port) as server:
        comes, comes_runs = node(server, "comes")
        over = {alert["alert"]: alert for alert in (json.loads(receiver.next()[3]) for _ in range(2))}
        tap.check_equal({name: alert["state"] for name, alert in over.items()}, {"node_lost": "over", "below_min": "over"}, "ends")
        for name, alert in over.items():
            tap.check_equal((alert["raised"], alert["run"]), (raised[name]["raised"], "kept"), "since when " + name)
        contents(comes_runs)
        for process in stays, comes:
            process.kill()


def level():
    receiver = Receiver()
    with daemon("--alert-level", "error", DTRUN_RENDEZVOUS_ALERT_URL=receiver.at) as server:
        run(server, "good", "true")
        run(server, "bad", "false")
        tap.check_equal(receiver.alert("run_ended_badly")["run"], "bad", "the first alert of all")


def tried_again():
    receiver = Receiver(503, 429, 200)
    with daemon("--alert-url", receiver.at):
        bodies = [receiver.next() for _ in range(3)]
        tap.check_equal([b[0] for b in bodies], [503, 429, 200], "answers")
        tap.check_equal(len({b[3] for b in bodies}), 1, "different bodies of one alert")


def refused_for_good():
    receiver = Receiver(404, 200)
    with daemon("--alert-url", receiver.at + "/very/secret") as server:
        tap.check_equal(receiver.next()[0], 404, "answer")
        run(server, "good", "true")
        receiver.alert("run_ended_well")  # the first is not sent again
        said = "".join(server.said)
        tap.check_equal("the answer is 404" in said, True, said)
        tap.check_equal("secret" in said, False, "the path of an address is in the log: " + said)


def silent():
    """One receiver takes connections and never answers; nobody waits for it, not even the end."""
    receiver = Receiver()
    with socket.create_server((servers.HOST, 0)) as deaf:
        with daemon("--alert-url", "http://%s:%d/" % deaf.getsockname(), "--alert-url", receiver.at) as server:
            deaf.accept()[0].recv(1)  # it is in the middle of a delivery
            receiver.alert("server_started")
            tap.check_equal(run(server, "good", "true"), 0, "status of the run")
            receiver.alert("run_ended_well")


def command():
    told = fifo("told")
    path = script("page-somebody", 'cat >"%s"\n' % told)
    with daemon("--alert-cmd", "'%s'" % path):
        tap.check_equal(json.loads(contents(told))["alert"], "server_started", "what the command read")


def mail():
    sent = fifo("sent")
    folder = os.path.join(os.environ["TMPDIR"], "bin")
    os.mkdir(folder)
    script("bin/sendmail", '{ echo "$*"; cat; } >"%s"\n' % sent)
    with daemon("--alert-mail", "ops@example.org", PATH=folder + ":" + os.environ["PATH"]):
        lines = contents(sent).split("\n")
        tap.check_equal(lines[:3], ["-t -i", "To: ops@example.org", "Subject: [dtrun] info, server_started"], "the mail begins with")


def alert_test():
    good, bad = Receiver(), Receiver(500)
    with daemon("--alert-url", good.at + "/a", "--alert-url", bad.at + "/b", "--alert-cmd", "exit 3") as server:
        ask = [tools.ctl, "alert", "test", "--endpoint", "%s:%d" % (servers.HOST, server.port)]
        good.alert("server_started")
        asked = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        tap.check_equal(good.alert("test")["state"], "test", "state")
        tap.check_equal(asked.returncode, 1, asked.stdout)
        for line in ("alerts to %s: delivered" % good.at, "alerts to %s: the answer is 500" % bad.at, "alerts by a command: "):
            tap.check_equal(line in asked.stdout, True, "%s in %s" % (line, asked.stdout))
        tap.check_equal("/a" in asked.stdout.replace(good.at, ""), False, "the path of an address is shown: " + asked.stdout)


def without_receivers():
    with daemon() as server:
        asked = subprocess.run([tools.ctl, "alert", "test", "--endpoint", "%s:%d" % (servers.HOST, server.port)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        tap.check_equal((asked.returncode, "--alert-url" in asked.stdout), (1, True), asked.stdout)


def http_port(server):
    """Of the address that the log names behind the one where it listens."""
    found = []
    training.wait_for(lambda: found.extend(re.findall(r"HTTP at http://127\.0\.0\.1:(\d+)", "".join(server.said))) or found, "HTTP")
    return int(found[0])


def metrics_of(address):
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        return answer.read().decode()


def loss_becomes_nan():
    """AdamW's decay is multiplied with the rate: weights grow by 10^5 with each step until they are no numbers."""
    receiver, story = Receiver(), training.Story(tools)
    with daemon("--alert-url", receiver.at, "--http", servers.HOST + ":0") as server:
        receiver.alert("server_started")
        config = story.config(steps=10 ** 6, optimizer={"params": {"lr": 1e6, "weight_decay": 0.1}}, max_skipped_steps=0)
        options = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "%s:%d" % (servers.HOST, server.port), "--rdzv-id", "diverged", "--nnodes",
                   "1:1", "--rdzv-conf", "keep_alive_interval=1")
        try:
            story.start(config, dtrun=options, world=2)
            alert = receiver.alert("loss_nan")
            tap.check_equal((alert["run"], alert["weight"], alert["state"]), ("diverged", "error", "raised"), "the alert %s" % alert)
            tap.check_equal(re.sub("[0-9]+", "N", alert["words"]), "the loss is NaN at step N", "words")
            asked = subprocess.run([tools.ctl, "status", "--json", "--endpoint", "%s:%d" % (servers.HOST, server.port)],
                                   stdout=subprocess.PIPE, check=True)
            run_row = json.loads(asked.stdout)["runs"][0]
            tap.check_equal((run_row["loss"], run_row["steps"]), ("nan", 10 ** 6), "the run %s" % run_row)
            at = "http://%s:%d/metrics" % (servers.HOST, http_port(server))
            for begin in ('dtrun_run_loss{run="diverged"} NaN', 'dtrun_alerts{alert="loss_nan",weight="error"} 1',
                          'dtrun_alerts_delivered_total{receiver="1",name="alerts to %s"} 2' % receiver.at,
                          'dtrun_run_time_ratio{run="diverged",section="communication"}', 'dtrun_node_disk_bytes{run="diverged"',
                          'dtrun_node_step_seconds{run="diverged"'):
                training.wait_for(lambda begin=begin: "\n" + begin in metrics_of(at), begin)
        finally:
            story.finish()


def bad_options():
    for option, value, words in (("--alert-url", "ftp://x/", "http://HOST/PATH"), ("--alert-level", "loud", "no weight of alerts"),
                                 ("--alert-mail", "a b", "no address of mail"), ("--alert-url", "http:///x", "http://HOST/PATH")):
        asked = subprocess.run([tools.rendezvous, "--check-config", option, value], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        tap.check_equal((asked.returncode, words in asked.stdout and option in asked.stdout), (2, True), asked.stdout)


tap.start()
tap.case("a run that ends well and one that ends badly are told", runs_that_end)
tap.case("receivers outlive a reload", reloaded)
tap.case("alerts that are open when a daemon is killed are ended by the next one", restarted)
tap.case("--alert-level leaves out lighter alerts", level)
tap.case("what a receiver refuses for the moment is sent again", tried_again)
tap.case("what a receiver refuses for good is not, and the log names no secret", refused_for_good)
tap.case("a receiver that never answers holds up nobody", silent)
tap.case("a command reads the alert", command)
tap.case("sendmail gets a message", mail)
tap.case("dtrun-ctl alert test says how each receiver took it", alert_test)
tap.case("dtrun-ctl alert test without receivers says how to name one", without_receivers)
tap.case("a loss that becomes NaN is told, and seen", loss_becomes_nan)
tap.case("bad options are refused before the daemon starts", bad_options)
tap.done()
