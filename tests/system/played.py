# SPDX-License-Identifier: Apache-2.0
#
# A rendezvous that is only played: it serves the page, and says of runs and nodes whatever a test wants to be said.

import datetime
import http.server
import json
import threading
import urllib.parse

NOW = datetime.datetime(2026, 11, 23, 7, 0, 0, tzinfo=datetime.timezone.utc)


def utc(seconds_ago=0):
    return (NOW - datetime.timedelta(seconds=seconds_ago)).isoformat(timespec="seconds").replace("+00:00", "Z")


def epoch(seconds_ago=0):
    return int(NOW.timestamp() - seconds_ago)


# -- what is said ----------------------------------------------------------------------------------

def run(name, state="running", **more):
    return {"id": name, "state": state, "round": 0, "world": 8, "nodes": 1, "min": 1, "max": 1, "restarts": 0, "max_restarts": 3,
            "losses": 0, "since_s": 7260, "master": "10.0.0.1:41001" if state == "running" else "", "why": "", **more}


def node(name, of, seat=0, **more):
    return {"name": name, "run": of, "state": "online", "doing": "running", "seat": seat, "workers": 8, "beat_age_s": 0, "round": 0,
            "step": 18420, "step_age_s": 1, "tokens_per_s": 51200, **more}


def excluded(name, why, **more):
    return {"name": name, "why": why, "until_s": 0, "strikes": 0, "drained": False, "probation_s": 0, **more}


def past(number, ended, lasted, first, last, cause, decided, lost=12000):
    return {"round": number, "ended_s": epoch(ended), "lasted_ms": lasted * 1000, "lost_ms": lost, "first_step": first,
            "last_step": last, "cause": cause, "decided": decided}


def alert(rule, words, weight="warning", ago=60, **more):
    return {"alert": rule, "state": "raised", "weight": weight, "server": "head", "words": words, "advice": "", "times": 1,
            "raised": utc(ago), **more}


def status(runs=(), nodes=(), out=(), rounds=None, alerts=(), samples=None):
    return {"server": {"host": "daemon", "version": "0.1.0", "now": utc(), "started": utc(864000)}, "runs": list(runs),
            "nodes": list(nodes), "excluded": list(out), "alerts": list(alerts), "past": list(rounds or []),
            "samples": samples or {"every_s": 2, "points": []}}


def one_node():
    return status([run("llama")], [node("node0", "llama")])


def host(i):
    """What the I-th node tells of its workers, GPUs and disk."""
    return {"step_ms": 1240, "gpus": 8, "gpu_busy": 93 - i % 3, "gpu_mem_mib": 615000 + 900 * (i % 8), "gpu_mem_total_mib": 655360,
            "disk": "/scratch/ckpt", "disk_free_mib": 900000, "disk_total_mib": 1800000,
            "worker_ms": ",".join(str(800 + (i * 8 + k) * 7 % 13) for k in range(8))}


def thousand(count=1000):
    """A large run in which one node is silent, one is behind and one is gone; and what happened last night."""
    nodes = [node("node%d" % i, "llama-405b", i, round=3, **host(i)) for i in range(count)]
    nodes[7].update(state="suspect", beat_age_s=9, step=18411, tokens_per_s=0)
    nodes[count * 64 // 100].update(step=18406, step_age_s=31)
    del nodes[count * 412 // 1000]
    nodes += [node("spare%d" % i, "llama-405b", -1, doing="parked", round=-1, step=-1, tokens_per_s=0) for i in range(3)]
    out = [excluded("node1007", "its GPU 3 fell off the bus (Xid 79), twice within an hour", until_s=1260, strikes=3),
           excluded("rack12-4", "alice: new memory", drained=True),
           excluded("node23", "exit code 1", strikes=1, probation_s=1800)]
    rounds = [past(0, 50000, 9000, 1, 4100, "node1007 rank 8059: CUDA error: uncorrectable ECC error encountered", "restart 1 of 3"),
              past(1, 40988, 3600, 4001, 5820, "node1007 went offline (its connection closed, and it was not back within 30 s)",
                   "a spare takes its seat; restarts stay 1 of 3"),
              past(2, 18000, 22000, 5801, 15020, "node1007 rank 8061: killed by SIGBUS; its GPU 3 fell off the bus (Xid 79)",
                   "restart 2 of 3, without node1007")]
    return status([run("llama-405b", round=3, world=8 * count, nodes=count, min=990, max=count, restarts=2, losses=4, since_s=17988,
                       user="alice", begun_on="login1", begun_s=epoch(59100),
                    script="pretrain.py", job="slurm 4711")], nodes, out, rounds)


def training(count=8):
    """A run that tells all that it can: one rank of it is slow, a disk is nearly full, an upload lags, a loss was no number."""
    nodes = [node("node%d" % i, "llama", i, round=1, **host(i)) for i in range(count)]
    nodes[2]["worker_ms"] = "812,809,811,1790,808,812,813,930"
    nodes[3].update(disk_free_mib=1200, gpu_busy=-1)
    nodes[5]["upload_behind_s"] = 2700
    seconds = [epoch(120 * i) for i in range(240, 0, -1)]
    loss = [11 * (i + 1) ** -0.3 for i in range(240)]
    points = [[t, 420 + 75 * i, loss[i], loss[i] - 0.05, loss[i] + 0.05, 1638400 + 9000 * (i * 7 % 5)] for i, t in enumerate(seconds)]
    points[100][2:5] = ["nan", None, None]
    points[150][4] += 3
    del points[170:180]
    return status([run("llama", round=1, nodes=count, min=count, max=count, world=8 * count, since_s=28000, user="alice", begun_on="login1",
                       step=18420, steps=50000, loss="2.1347", tokens_per_s=1641200, mfu=412, compute=702, comm=181, data=23, idle=94)],
                  nodes, [], [past(0, 28500, 500, 1, 400, "node1 rank 9: exit status 1", "restart 1 of 3")],
                  [alert("straggler", "rank 19 of node2 holds the others up: its part of a step takes twice as long", run="llama",
                         advice="see what else the host does; to replace it by a spare: --on-straggler drain"),
                   alert("hang", "the job stands still", "error", 30, run="other", advice="see where each worker stands: dtrun-ctl look RUN")],
                  {"every_s": 120, "points": points})


def busy():
    """Several runs, of which some have ended."""
    nodes = [node("node%d" % i, "llama", i, round=2) for i in range(4)] + [node("gpu-a%d" % i, "tune", i, step=-1, tokens_per_s=0)
                                                                          for i in range(2)]
    nodes[1].update(step=18412)  # its beat came earlier, as did its step
    nodes[2].update(step=18417, step_age_s=9)
    nodes[-1].update(doing="waiting", seat=-1)
    nodes[-2].update(doing="waiting", seat=-1)
    runs = [run("llama", round=2, nodes=4, min=2, max=4, world=32, restarts=1, user="alice", begun_on="login1"),
            run("tune", "gathering", round=-1, world=0, nodes=2, min=4, max=4, since_s=95, user="bob", begun_on="ws12",
                why="2 more nodes are needed"),
            run("eval", "closed", since_s=4000, user="bob", begun_on="ws12", why="all nodes (1) have succeeded"),
            run("night", "closed", since_s=18000, nodes=8, world=64, round=4, restarts=3, user="alice", begun_on="login1",
                why="node5 rank 41: torch.OutOfMemoryError: CUDA out of memory; of 3 restarts none is left (--max-restarts)")]
    return status(runs, nodes, [excluded("node5", "its workers failed 3 times within 10 minutes", until_s=540, strikes=3)],
                  [past(0, 9000, 3000, 1, 900, "node2 rank 17: killed by SIGKILL: the kernel was out of memory", "restart 1 of 3")])


def event(kind, words, weight="info", ago=0, **more):
    return {"time": utc(ago), "kind": kind, "weight": weight, "words": words, **more}


def night(of="llama-405b"):
    return [event("server_started", "dtrun-rendezvous 0.1.0 serves at 10.0.0.1:29400", ago=60000),
            event("run_began", "alice began it on login1", ago=59100, run=of),
            event("round_began", "round 0 began with 1000 nodes", ago=59000, run=of, round=0),
            event("worker_failed", "node1007 rank 8059: CUDA error: uncorrectable ECC error encountered", "error", 50000, run=of,
                  node="node1007", rank=8059, round=0),
            event("round_began", "round 1 began with 1000 nodes", ago=49988, run=of, round=1),
            event("node_lost", "node1007 went offline; spare3 takes its seat", "warning", 40988, run=of, node="node1007", round=1),
            event("node_quarantined", "node1007 is kept out for 30 min: 3 strikes", "warning", 18001, run=of, node="node1007"),
            event("round_began", "round 3 began with 1000 nodes", ago=17988, run=of, round=3),
            event("straggler", "node640 rank 5123 holds up the others: its GPU is throttled", "warning", 40, run=of, node="node640")]


# -- who says it -----------------------------------------------------------------------------------

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, document, policy, token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.document, self.policy, self.token = document.encode(), policy, token
        self.status, self.events = status(), []
        self.up = True
        self.refuses_events = threading.Event()  # not set: who asks for them without the token waits for the refusal
        self.refuses_events.set()
        self.changed = threading.Condition()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d/" % self.server_address[1]

    def say(self, said):
        self.status = said

    def tell(self, *events):
        with self.changed:
            for e in events:
                self.events.append(dict(e, number=len(self.events) + 1))
            self.changed.notify_all()

    def be_up(self, up):
        """Down: who asks is hung up on, and so is who listens."""
        with self.changed:
            self.up = up
            self.changed.notify_all()

    def handle_error(self, request, client_address):
        """A browser that goes away is no error."""


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, format, *args):  # its name in the library
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if not self.server.up:
            return
        if url.path == "/":
            self.answer("text/html; charset=utf-8", self.server.document, {"Content-Security-Policy": self.server.policy})
        elif self.server.token and self.headers.get("Authorization") != "Bearer " + self.server.token:
            if url.path == "/events":
                self.server.refuses_events.wait()
            self.answer("text/plain", b"a token is needed\n", status=401)
        elif url.path == "/status.json":
            said = self.of(query.get("run"))
            self.answer("application/json", json.dumps(said).encode(), status=404 if "error" in said else 200)
        elif url.path == "/events":
            self.stream(int(query.get("after", 0)))
        else:
            self.answer("text/plain", b"", status=404)

    def of(self, name):
        said = dict(self.server.status)
        if name is None:
            del said["past"], said["samples"]
        else:
            said["runs"] = [r for r in said["runs"] if r["id"] == name]
            said["nodes"] = [n for n in said["nodes"] if n["run"] == name]
            if not said["runs"]:
                return {"error": "there is no such run"}
        return said

    def answer(self, kind, body, headers=None, status=200):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, after):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        server = self.server
        while True:
            with server.changed:
                server.changed.wait_for(lambda: not server.up or len(server.events) > after)
                if not server.up:
                    return
                new, after = server.events[after:], len(server.events)
            for e in new:
                self.wfile.write(b"id: %d\ndata: %s\n\n" % (e["number"], json.dumps(e).encode()))
            self.wfile.flush()
