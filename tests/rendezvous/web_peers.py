# SPDX-License-Identifier: Apache-2.0
#
# The daemon over HTTP as others' programs see it: curl, Python's http.client, and the parsers of
# Prometheus' own client library, which refuse what does not keep to the formats.

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
    from prometheus_client.parser import text_string_to_metric_families as read_prometheus
except ImportError:
    tap.skip_all("python3-prometheus-client is not installed")


def serve(program, state):
    daemon = subprocess.Popen(
        [program, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", state],
        stderr=subprocess.PIPE, text=True, preexec_fn=tap.die_with_parent)
    for line in daemon.stderr:
        found = re.search(r"HTTP at http://127\.0\.0\.1:(\d+)", line)
        if found:
            return daemon, int(found.group(1))
    raise AssertionError("the daemon did not begin to serve")


def ask(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


def check_families(families):
    values = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in values:
                raise AssertionError("%s is told twice" % (key,))
            values[key] = sample.value
    tap.check_equal(values[("dtrun_runs", (("state", "running"),))], 0, "runs")
    if values[("dtrun_process_cpu_seconds_total", ())] < 0:
        raise AssertionError("no time of processors")


def test_prometheus(port):
    answer, body = ask(port, "/metrics")
    tap.check_equal(answer.getheader("Content-Type"), "text/plain; version=0.0.4; charset=utf-8", "type")
    check_families(read_prometheus(body))


def test_openmetrics(port):
    answer, body = ask(port, "/metrics", Accept="application/openmetrics-text;version=1.0.0")
    tap.check_equal(answer.getheader("Content-Type").split(";")[0], "application/openmetrics-text", "type")
    check_families(read_openmetrics(body))


def test_one_connection(port):
    """An answer in chunks and one that has a length, on a connection that stays."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(3):
        connection.request("GET", "/status.json")
        status = json.loads(connection.getresponse().read())
        tap.check_equal(sorted(status), ["alerts", "excluded", "nodes", "runs", "server"], "members")
        connection.request("GET", "/readyz")
        tap.check_equal(json.loads(connection.getresponse().read()), {"state": "ready"}, "readiness")
    connection.close()


def test_monitoring(port, folder):
    """What rules and board ask for is there."""
    told = {line.split()[2] for line in ask(port, "/metrics")[1].splitlines() if line.startswith("# TYPE")}
    for name in "rules.yml", "board.json":
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            text = f.read()
        wanted = set(re.findall(r"\bdtrun_\w+", text))
        if not wanted or wanted - told:
            raise AssertionError("%s asks for %s" % (name, sorted(wanted - told) or "nothing"))
        if name.endswith(".json"):
            json.loads(text)


def test_curl(port):
    for version in "--http1.0", "--http1.1":
        said = subprocess.run(
            ["curl", "-sS", "--fail", version, "http://127.0.0.1:%d/status.json" % port],
            capture_output=True, text=True, timeout=60, check=True).stdout
        tap.check_equal(json.loads(said)["runs"], [], "runs")
    head = subprocess.run(
        ["curl", "-sS", "--head", "http://127.0.0.1:%d/metrics" % port],
        capture_output=True, text=True, timeout=60, check=True).stdout
    if "200 OK" not in head or "nosniff" not in head:
        raise AssertionError(head)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rendezvous", required=True)
    arguments.add_argument("--monitoring", required=True, help="the folder with rules and board")
    given = arguments.parse_args()
    tap.start()
    state = tempfile.TemporaryDirectory(prefix="dt-web-peers-")
    daemon, port = serve(given.rendezvous, state.name)
    try:
        tap.case("Prometheus reads the metrics", lambda: test_prometheus(port))
        tap.case("OpenMetrics is read as strictly", lambda: test_openmetrics(port))
        tap.case("one connection serves answers of both kinds", lambda: test_one_connection(port))
        tap.case("rules and board ask for metrics that there are", lambda: test_monitoring(port, given.monitoring))
        tap.case("curl gets them", lambda: test_curl(port))
    finally:
        daemon.terminate()
        tap.case("the daemon ends well", lambda: tap.check_equal(daemon.wait(60), 0, "exit status"))
        state.cleanup()
    tap.done()


main()
