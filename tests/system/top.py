# SPDX-License-Identifier: Apache-2.0
#
# top.py --dtrun PROGRAM --rendezvous PROGRAM --ctl PROGRAM: dtrun-ctl top on a terminal, at a real daemon with a real job.

import argparse
import contextlib
import os
import signal
import subprocess

import servers
import tap
import terminal

parser = argparse.ArgumentParser()
parser.add_argument("--dtrun", required=True)
parser.add_argument("--rendezvous", required=True)
parser.add_argument("--ctl", required=True)
tools = parser.parse_args()
STORIES = []


def story(run):
    STORIES.append((run.__doc__, run))
    return run


def daemon(port=0):
    return servers.Server("dtrun-rendezvous", [tools.rendezvous, "--listen", "%s:%d" % (servers.HOST, port)], "stderr")


def top(server, *words, **more):
    return terminal.Terminal([tools.ctl, "top", "--endpoint", "%s:%d" % (servers.HOST, server.port), "--interval", "0.2", *words], **more)


def ctl(server, *words, **environment):
    line = [tools.ctl, "--endpoint", "%s:%d" % (servers.HOST, server.port), *words]
    return subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, **environment), preexec_fn=tap.die_with_parent)


def follow(server, name, kind):
    """Waits until that happened in the run."""
    line = [tools.ctl, "--endpoint", "%s:%d" % (servers.HOST, server.port), "events", "--follow", name]
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=tap.die_with_parent) as process:
        try:
            for event in process.stdout:
                if kind in event:
                    return
        finally:
            process.kill()
    raise AssertionError("the events of %s ended without %s" % (name, kind))


@contextlib.contextmanager
def job(server, name, workers=2):
    """A job of one node, whose workers wait until the with block is over."""
    fifo = os.path.join(os.environ["TMPDIR"], name + ".fifo")
    os.mkfifo(fifo)
    waits = os.open(fifo, os.O_RDWR)
    line = [tools.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "%s:%d" % (servers.HOST, server.port), "--rdzv-id", name,
            "--nnodes", "1:1", "--nproc-per-node", str(workers), "--node-name", "host-of-" + name, "--no-python",
            "sh", "-c", "echo hello of $RANK; read line < " + fifo]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=tap.die_with_parent)
    try:
        follow(server, name, "round_began")
        yield process
    finally:
        os.write(waits, b"\n" * workers)  # a line for each, which stays there until it is read
        tap.check_equal(process.wait(60), 0, "exit status of the job " + name)
        os.close(waits)
        os.unlink(fifo)


@story
def shows_a_job():
    """a job is shown, opened, looked into and left again, on screens of several sizes"""
    with daemon() as server, job(server, "llama"), top(server) as t:
        t.shows(r"^rendezvous 127\.0\.0\.1:\d+ \(daemon, dtrun ", r"^1 run, 1 node", r"^RUN +STATE +ROUND +NODES", r"^llama +running",
                r"^run llama: running, round 0, 1 of 1 node", r"^host-of-llama +running", r"^EVENTS", r"Enter open")
        t.resize(12, 40)
        t.shows(r"^llama +running", r"^1 of 1 ", never=["OWNER"])
        t.resize(50, 200)
        t.shows(r"^RUN +STATE .*OWNER$", r"^host-of-llama")
        t.press("\r")
        t.shows(r"^run llama: running", r"^NODE +STATE", never=[r"^RUN "])
        t.press("t")
        t.shows(r"^run llama, ranks 0 to 1$", r"^ranks? 0.*: ")
        t.press("\033")
        t.shows(r"^NODE +STATE")
        t.press("\033")
        t.shows(r"^RUN +STATE")
        t.press("/nobody")
        t.shows(r"^filter: nobody_", r"^no run fits the filter", never=[r"^llama +running"])
        t.press("\033")
        t.shows(r"^llama +running")
        t.press("h")
        t.shows("choose the run or node above, below")
        t.press("qq")
        t.ends(0)
        t.is_as_before()


@story
def shows_what_workers_print():
    """dtrun-ctl logs has the terminal until Ctrl-C, or until somebody has read why it ended"""
    with daemon() as server, top(server) as t:
        with job(server, "llama"):
            t.shows(r"^llama +running")
            t.press("l")
            t.shows(r"hello of 0$", r"hello of 1$", never=["^RUN"])
            t.press("\003")
            t.shows(r"^RUN +STATE", r"^llama +running")
            t.press("\rl")
            t.shows(r"hello of 1$", never=["^NODE"])
            t.press("\032")
            tap.check_equal(t.next_told(), "stopped", "after Ctrl-Z")
            t.is_as_before()
            t.go_on()
        t.shows("-- Enter leads back to dtrun-ctl top --")
        t.press("\n")
        t.shows(r"^run llama: succeeded")
        t.press("qq")
        t.ends(0)
        t.is_as_before()


@story
def ends_with_what_it_started():
    """SIGTERM ends the command that has the terminal, too"""
    with daemon() as server, job(server, "llama"), top(server) as t:
        t.shows(r"^llama +running")
        t.press("l")
        t.shows(r"hello of 1$")
        os.kill(t.pid, signal.SIGTERM)
        t.ends(128 + signal.SIGTERM)
        t.is_as_before()


@story
def follows_what_happens():
    """a job that begins and ends is shown without a key, and after the picture was frozen"""
    with daemon() as server, top(server) as t:
        t.shows(r"^no runs")
        with job(server, "bert"):
            t.shows(r"^bert +running", "run bert")
            t.press("p")
            t.shows(r"^frozen: 1 run")
        tap.check_equal(ctl(server, "node", "drain", "node7").returncode, 0, "exit status of the drain")
        t.press("r")
        t.shows(r"by name, reversed", r"^frozen: ")
        t.press("p")
        t.shows(r"kept out: node7", never=[r"^bert +running"])
        t.press("q")
        t.ends(0)


@story
def comes_back():
    """a daemon that goes away is waited for, with what was last heard on the screen"""
    first = daemon()
    with top(first) as t:
        tap.check_equal(ctl(first, "node", "drain", "node7").returncode, 0, "exit status of the drain")
        t.shows(r"kept out: node7")
        tap.check_equal(first.stop(), 0, "exit status of the daemon")
        t.shows(r"^no answer for ", r"node7 is drained")
        with daemon(first.port):
            t.shows(r"^0 runs, 0 nodes", never=["no answer", "node7"])
            t.press("q")
            t.ends(0)
            t.is_as_before()


@story
def is_ended_by_signals():
    """the terminal is put back when a key or somebody else ends it"""
    with daemon() as server:
        for number, key in ((signal.SIGINT, "\003"), (signal.SIGQUIT, "\034"), (signal.SIGTERM, None), (signal.SIGHUP, None)):
            with top(server) as t:
                t.shows("no runs")
                if key:
                    t.press(key)
                else:
                    os.kill(t.pid, number)
                t.ends(128 + number)
                t.is_as_before()


@story
def is_stopped():
    """Ctrl-Z gives the terminal back to the shell, and fg shows all again"""
    with daemon() as server, top(server) as t:
        t.shows("no runs")
        for _ in range(2):
            t.press("\032")
            tap.check_equal(t.next_told(), "stopped", "after Ctrl-Z")
            t.is_as_before()
            t.screen.resize(24, 80)
            t.go_on()
            t.shows("no runs", "Enter open")
        os.kill(t.pid, signal.SIGSTOP)
        tap.check_equal(t.next_told(), "stopped", "after SIGSTOP")
        t.drain()
        t.screen.resize(24, 80)
        t.go_on()
        t.shows("no runs", "Enter open")
        t.press("q")
        t.ends(0)
        t.is_as_before()


@story
def is_not_steered():
    """a hostile name reaches the terminal as text, and NO_COLOR is heeded"""
    with daemon() as server:
        name = "x\033]0;evil\007\033[2J\u202e"
        tap.check_equal(ctl(server, "node", "drain", "--why", name, name).returncode, 0, "exit status of the drain")
        with top(server, NO_COLOR="1") as t:
            t.shows(r"kept out: x\\x1b\]0;evil\\x07\\x1b\[2J", r"\\x1b.* is drained")
            tap.check_equal((b"\033]" in t.raw, b"\007" in t.raw), (False, False), "bytes of the name on the terminal")
            tap.check_equal(t.screen.colours, False, "whether there are colours")
            t.press("q")
            t.ends(0)
        with top(server) as t:
            t.shows("kept out: x")
            tap.check_equal(t.screen.colours, True, "whether there are colours")
            t.press("q")
            t.ends(0)


@story
def is_text_elsewhere():
    """without a terminal that can show pictures, or with --once, one picture is text"""
    with daemon() as server, job(server, "llama"):
        with top(server, "llama") as t:
            t.shows(r"^host-of-llama +running")
            t.press("q")
            t.ends(0)
        whole = ctl(server, "top")
        tap.check_equal(whole.returncode, 0, whole.stdout)
        tap.check_equal("\033" in whole.stdout or "Enter" in whole.stdout, False, "keys or escapes in\n" + whole.stdout)
        for words in ("RUN ", "llama ", "run llama: running", "host-of-llama", "EVENTS"):
            tap.check_equal("\n" + words in whole.stdout, True, "%r in\n%s" % (words, whole.stdout))
        one = ctl(server, "top", "llama", "--once").stdout
        tap.check_equal(("\nRUN " in one, "\nhost-of-llama" in one), (False, True), one)
        with top(server, TERM="dumb") as t:
            t.ends(0)
            tap.check_equal(b"\033" in t.raw, False, "escapes on a dumb terminal")
        with top(server, "--once") as t:
            t.ends(0)
            tap.check_equal((b"\033" in t.raw, b"host-of-llama" in t.raw), (False, True), "escapes with --once, and the node")
        unknown = ctl(server, "top", "nobody")
        tap.check_equal((unknown.returncode, 'knows no run "nobody"' in unknown.stdout), (1, True), unknown.stdout)


@story
def begins_with_an_answer():
    """nobody to ask, and a run that is not there, are said at once on the terminal of before"""
    with daemon() as server:
        with top(server, "nobody") as t:
            t.ends(1)
            t.is_as_before()
            tap.check_equal(b'knows no run "nobody"' in t.raw, True, "what was said\n%s\n" % t.screen.text())
    line = [tools.ctl, "top"]
    with terminal.Terminal(line, DTRUN_RENDEZVOUS="%s:%d" % (servers.HOST, server.port)) as t:
        t.ends(1)
        tap.check_equal(b"DTRUN_RENDEZVOUS" in t.raw, True, "what was said\n%s\n" % t.screen.text())
    with top(server) as t:
        t.ends(1)
        t.is_as_before()
        tap.check_equal(b"cannot connect" in t.raw, True, "what was said\n%s\n" % t.screen.text())


tap.start()
for words, run in STORIES:
    tap.case(words, run)
tap.done()
