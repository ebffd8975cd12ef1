# SPDX-License-Identifier: Apache-2.0
"""measure.py BUILD ROUNDS SECONDS: what http.sh prints."""
import contextlib
import http.client
import json
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

CONNECTIONS = 8  # of the store's load


class Rendezvous:
    """A daemon and the nodes of one job."""

    def __init__(self, build, nodes):
        self.build = build
        self.daemon = subprocess.Popen(
            [build + "/rendezvous/dtrun-rendezvous", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        self.store, self.port = self.read_port("listening on 127"), self.read_port("HTTP at ")
        threading.Thread(target=self.daemon.stderr.read, daemon=True).start()
        self.crowd = subprocess.Popen(
            [build + "/bench/rendezvous/rdzv_crowd", "--server", "127.0.0.1:%d" % self.store, "--agents", str(nodes),
             "--pid", str(self.daemon.pid), "--seconds", "600"], stdout=subprocess.DEVNULL)

    def read_port(self, words):
        for line in self.daemon.stderr:
            if words in line:
                return int(re.search(r":(\d+)\s*$", line)[1])
        sys.exit("measure.py: the daemon did not start")

    def read(self, metric):
        found = re.search("^" + re.escape(metric) + r" (\d+)$", self.ask("/metrics")[0], re.M)
        return int(found[1]) if found else 0

    def wait_for(self, nodes):
        """The job has lost a node, and its others run again; a busy machine may cost it some more."""
        end = time.monotonic() + 120
        time.sleep(1)  # the metrics of a server without runs are told for so long
        while (self.read('dtrun_run_round{run="crowd"}') == 0
               or self.read('dtrun_nodes{doing="running",state="online"}') < 0.9 * nodes):
            if time.monotonic() > end or self.crowd.poll() is not None:
                sys.exit("measure.py: the nodes do not run")
            time.sleep(0.2)

    def ask(self, path):
        """The body, and the milliseconds that it took."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        begun = time.perf_counter()
        connection.request("GET", path)
        body = connection.getresponse().read()
        took = 1000 * (time.perf_counter() - begun)
        connection.close()
        return body.decode(), took

    def cpu_ticks(self):
        with open("/proc/%d/stat" % self.daemon.pid, encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    @contextlib.contextmanager
    def silence(self):
        """Nodes say nothing, for less time than makes them suspects."""
        time.sleep(1)  # so that all have been heard of
        self.crowd.send_signal(signal.SIGSTOP)
        busy = True
        while busy:  # with what they had said
            before = self.cpu_ticks()
            time.sleep(0.2)
            busy = self.cpu_ticks() > before + 2
        yield
        self.crowd.send_signal(signal.SIGCONT)

    def measure_store(self, seconds):
        """The latencies at the store, in microseconds: half are below the first, 99 % below the second."""
        said = subprocess.run(
            [self.build + "/bench/store_bench", "--server", "127.0.0.1:%d" % self.store, "--connections", str(CONNECTIONS),
             "--seconds", str(seconds), "--warmup", "0.3", "--format", "json"], check=True, capture_output=True, text=True)
        figures = json.loads(said.stdout)
        return figures["p50_us"], figures["p99_us"]

    def end(self):
        self.crowd.kill()
        self.crowd.wait()
        self.daemon.terminate()
        self.daemon.wait()


class Watchers:
    """Prometheus and a page: each second a scrape and a status."""

    def __init__(self, rendezvous):
        self.rendezvous, self.over = rendezvous, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(1):
            self.rendezvous.ask("/metrics")
            self.rendezvous.ask("/status.json")

    def end(self):
        self.over.set()
        self.thread.join()


def measure_answers(rendezvous, rounds):
    times = {"/metrics": [], "/status.json": []}
    sizes = {}
    for _ in range(rounds):
        with rendezvous.silence():
            time.sleep(1)  # the metrics are made anew
            for path, took in times.items():
                body, ms = rendezvous.ask(path)
                took.append(ms)
                sizes[path] = len(body)
    for path, took in times.items():
        print(f"    {path:14} {statistics.median(took):8.1f} ms, at most {max(took):8.1f} ms {sizes[path] / 1000:10.1f} kB")


def measure_latencies(rendezvous, rounds, seconds):
    alone, watched = [], []
    for _ in range(rounds):
        with rendezvous.silence():
            alone.append(rendezvous.measure_store(seconds))
        with rendezvous.silence():
            watchers = Watchers(rendezvous)
            watched.append(rendezvous.measure_store(seconds))
            watchers.end()
    for i, name in enumerate(("p50", "p99")):
        a, w = (statistics.median(pair[i] for pair in pairs) for pairs in (alone, watched))
        print(f"    store's {name}    {a:8.1f} us, watched {w:8.1f} us, ratio {w / a:5.2f}")


def main(build, rounds, seconds):
    for nodes in 9900, 1000:
        print(f"\n{nodes} nodes")
        rendezvous = Rendezvous(build, nodes)
        try:
            rendezvous.wait_for(nodes)
            measure_answers(rendezvous, rounds)
            measure_latencies(rendezvous, rounds, seconds)
        finally:
            rendezvous.end()


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
