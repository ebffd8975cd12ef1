# SPDX-License-Identifier: Apache-2.0
#
# torch_store.py --server PROGRAM: real PyTorch cannot tell our store from its own. Each story makes
# the calls of a Python store against both servers; a row of it is what was asked, what came, and,
# where it is worth pinning, what had to come. A call that fails counts by its exception's class.
# Stories share the two servers, as jobs do, so a story's keys begin with its subject.

import argparse
import datetime
import multiprocessing
import time

import servers
import tap

try:
    import torch
    from torch.distributed import PrefixStore, TCPStore
except ImportError:
    tap.skip_all("python3-torch is not installed")

LEGACY = torch.__version__.startswith("1.")
MIB = 1 << 20
KEY_MAX = 8192 - 1  # on the wire the client puts a "/" in front

stories = []


def story(name, on=("daemon", "original")):
    def add(run):
        stories.append((name, on, run))
        return run

    return add


def seconds(n):
    return datetime.timedelta(seconds=n)


def open_store(port, world=None, timeout=30):
    return TCPStore(
        servers.HOST, port, world, False, seconds(timeout), wait_for_workers=world is not None
    )


def outcome(call, *args):
    try:
        return call(*args)
    except Exception as e:
        return "raises " + type(e).__name__


def need(store, method):
    if not hasattr(store, method):
        raise tap.Skip("PyTorch %s has no %s" % (torch.__version__, method))


# -- Other processes ------------------------------------------------------------------------------


def child_main(outbox, work, args):
    tap.die_with_parent()
    for thing in work(*args):
        outbox.send(thing)


class Child:
    """Runs the generator WORK in another process; next() is the next thing that it yields."""

    def __init__(self, work, *args):
        self.inbox, outbox = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(
            target=child_main, args=(outbox, work, args), daemon=True
        )
        self.process.start()
        outbox.close()

    def next(self):
        if not self.inbox.poll(60):
            raise AssertionError("nothing from process %d for 60 s" % self.process.pid)
        return self.inbox.recv()

    def wait_until_asleep(self):
        """Waits until the system call that follows what was last yielded blocks."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with open("/proc/%d/stat" % self.process.pid) as f:
                if f.read().rpartition(")")[2].split()[0] == "S":
                    return
            time.sleep(0.01)
        raise AssertionError("process %d does not block" % self.process.pid)

    def kill(self):
        self.process.kill()
        self.process.join()


def wait_for(port, key):
    store = open_store(port)
    yield "waiting"
    yield outcome(store.wait, [key], seconds(30))


def play(port, mine, theirs, rounds, serve):
    store = open_store(port)
    for i in range(rounds):
        if serve:
            store.set("%s/%d" % (mine, i), str(i))
        store.wait(["%s/%d" % (theirs, i)], seconds(30))
        if not serve:
            store.set("%s/%d" % (mine, i), store.get("%s/%d" % (theirs, i)))
    yield sum(int(store.get("%s/%d" % (theirs, i))) for i in range(rounds))


def come_early(port):
    yield "connecting"
    yield open_store(port).add("early", 1)


# -- Stories of one client ------------------------------------------------------------------------


@story("set and get, strings and bytes")
def _(port):
    s = open_store(port)
    s.set("plain", "v")
    yield "str", s.get("plain"), b"v"
    s.set("plain", b"w")
    yield "replaced", s.get("plain"), b"w"
    yield "another client", open_store(port).get("plain"), b"w"


@story("values: empty, every byte, and up to 8 MiB exactly")
def _(port):
    s = open_store(port)
    for size in (1, 1439, 1440, 65536, MIB + 1, 8 * MIB):
        value = bytes(range(256)) * (size // 256 + 1)
        s.set("value", value[:size])
        yield "%d bytes" % size, s.get("value") == value[:size], True
    s.set("value", b"")
    yield "empty", s.get("value"), b""
    yield "and then", s.add("value/next", 1), 1


@story("keys: empty, every byte, and up to 8 KiB exactly")
def _(port):
    s = open_store(port)
    for key in ("", " ", "\u00e4", b"/", b"\0", bytes(range(128)), "k" * 206, "k" * KEY_MAX):
        s.set(key, b"<%d>" % len(key))
        yield "%.20r" % key, s.get(key), b"<%d>" % len(key)


@story("a key longer than 8 KiB ends that connection and no other", on=["daemon"])
def _(port):
    s, other = open_store(port), open_store(port)
    other.set("bystander", "1")
    yield "too long", str(outcome(s.add, "k" * (KEY_MAX + 1), 1)).startswith("raises"), True
    yield "bystander", other.get("bystander"), b"1"


@story("add counts in decimal text")
def _(port):
    s = open_store(port)
    yield "absent", s.add("add/n", 5), 5
    yield "down", s.add("add/n", -7), -2
    yield "as text", s.get("add/n"), b"-2"
    yield "nothing", s.add("add/zero", 0), 0
    yield "nothing, as text", s.get("add/zero"), b"0"
    for text in (" 12", "+12", "12abc", "-3 ", "0x10"):
        s.set("add/text", text)
        yield repr(text), s.add("add/text", 1)
    s.set("add/big", str(2**63 - 1))
    yield "overflow", s.add("add/big", 1), -(2**63)


@story("add on what is no number ends that connection and no other")
def _(port):
    other = open_store(port)
    for text in ("abc", "", "9223372036854775808"):
        s = open_store(port)
        s.set("bad", text)
        yield repr(text), outcome(s.add, "bad", 1)
        yield "the same client", outcome(s.num_keys)
        yield "another client", other.get("bad"), text.encode()


@story("compare_set, its four rows")
def _(port):
    s = open_store(port)
    yield "absent, nothing expected", s.compare_set("cas/a", "", "new"), b"new"
    yield "is there", s.get("cas/a"), b"new"
    yield "absent, something expected", s.compare_set("cas/b", "old", "new"), b"old"
    yield "is not there", s.delete_key("cas/b"), False
    yield "equal", s.compare_set("cas/a", "new", "newer"), b"newer"
    yield "is replaced", s.get("cas/a"), b"newer"
    yield "different", s.compare_set("cas/a", "old", "x"), b"newer"
    yield "nothing expected of one present", s.compare_set("cas/a", "", "x"), b"newer"
    s.set("cas/a", "")
    yield "both empty", s.compare_set("cas/a", "", ""), b""


@story("wait for keys that are there")
def _(port):
    s = open_store(port)
    s.set("there/a", "1")
    s.set("there/b", "1")
    yield "one", s.wait(["there/a"]), None
    yield "two", s.wait(["there/a", "there/b"], seconds(5)), None
    yield "the same twice", s.wait(["there/a", "there/a"], seconds(5)), None
    yield "none", s.wait([], seconds(5)), None


@story("a wait that times out leaves the connection right")
def _(port):
    s = open_store(port)
    s.set("late/there", "1")
    yield "wait", outcome(s.wait, ["late/there", "late/never"], seconds(0.3))
    yield "add", s.add("late/n", 5), 5
    yield "wait again", outcome(s.wait, ["late/never"], seconds(0.1))
    yield "get what is there", s.get("late/there"), b"1"
    s.set_timeout(seconds(0.2))
    yield "get what is not", outcome(s.get, "late/never")
    s.set_timeout(seconds(30))
    yield "wait for what is there", s.wait(["late/there"]), None
    yield "delete", s.delete_key("late/there"), True


@story(
    "answers stay in step when an awaited key comes after the timeout",
    on=["daemon"] if LEGACY else ["daemon", "original"],  # 1.13's own server fails this
)
def _(port):
    s, other = open_store(port), open_store(port)
    before = s.num_keys()
    yield "wait", outcome(s.wait, ["step/key"], seconds(0.2)).startswith("raises"), True
    yield "add", s.add("step/n", 1), 1
    other.set("step/key", "1")
    yield "it came", other.get("step/key"), b"1"
    yield "num_keys", s.num_keys() - before, 2
    yield "add", s.add("step/n", 255), 256
    yield "get", s.get("step/key"), b"1"


@story("check")
def _(port):
    s = open_store(port)
    need(s, "check")
    s.set("check/a", "")
    yield "there", s.check(["check/a"]), True
    yield "one is not", s.check(["check/a", "check/b"]), False
    yield "none", s.check([]), True


@story("delete_key")
def _(port):
    s = open_store(port)
    s.set("gone", "1")
    yield "there", s.delete_key("gone"), True
    yield "not there", s.delete_key("gone"), False
    yield "counts from nothing", s.add("gone", 1), 1
    s.delete_key("gone")
    yield "is awaited again", outcome(s.wait, ["gone"], seconds(0.2))


@story("num_keys sees the keys of all, and each worker's place in init/")
def _(port):
    s = open_store(port)
    before = s.num_keys()
    s.set("count/a", "1")
    s.set("count/a", "2")
    open_store(port).add("count/b", 1)
    yield "two more", s.num_keys() - before, 2
    worker = open_store(port, world=2)
    yield "a worker does not wait for the others", worker.num_keys() - before, 3
    yield "the next changes its count alone", open_store(port, world=2).num_keys() - before, 3


@story("append")
def _(port):
    s = open_store(port)
    need(s, "append")
    for part in (b"x", b"", b"\0yz", b"w" * MIB):
        s.append("append/k", part)
    yield "all of it", s.get("append/k") == b"x\0yz" + b"w" * MIB, True


@story("multi_set and multi_get")
def _(port):
    s = open_store(port)
    need(s, "multi_get")
    s.multi_set(["multi/a", "multi/b", "multi/a", "multi/c"], ["1", "22", "3", ""])
    yield "the later wins", s.multi_get(["multi/a", "multi/b"]), [b"3", b"22"]
    yield "repeated", s.multi_get(["multi/c", "multi/b", "multi/c"]), [b"", b"22", b""]
    keys = ["multi/%d" % i for i in range(1000)]
    s.multi_set(keys, ["v" * i for i in range(1000)])
    yield "a thousand", [len(v) for v in s.multi_get(keys)] == list(range(1000)), True
    s.multi_set([], [])
    yield "none", s.multi_get([]), []
    s.set_timeout(seconds(0.2))
    yield "one is absent", outcome(s.multi_get, ["multi/a", "multi/never"])
    yield "and then", s.get("multi/b"), b"22"


@story("PrefixStore, nested, is a longer key")
def _(port):
    s = open_store(port)
    outer = PrefixStore("outer", s)
    inner = PrefixStore("inner", outer)
    inner.set("q", "1")
    yield "from below", s.get("outer/inner/q"), b"1"
    yield "halfway", outer.get("inner/q"), b"1"
    yield "add", inner.add("n", 3), 3
    yield "compare_set", inner.compare_set("q", "1", "2"), b"2"
    yield "wait", inner.wait(["q", "n"], seconds(5)), None
    yield "wait in vain", outcome(inner.wait, ["nope"], seconds(0.2))
    yield "num_keys is not filtered", inner.num_keys() == s.num_keys(), True
    yield "delete_key", inner.delete_key("q"), True
    if hasattr(inner, "multi_get"):
        inner.multi_set(["a", "b"], ["1", "2"])
        inner.append("a", "x")
        yield "multi_get", inner.multi_get(["a", "b"]), [b"1x", b"2"]
        yield "check", inner.check(["a", "nope"]), False


@story("ten thousand sets in a row, none of which is answered")
def _(port):
    s = open_store(port)
    before = s.num_keys()
    for i in range(10000):
        s.set("row/%d" % i, str(i))
    yield "all there", s.num_keys() - before, 10000
    yield "the last", s.get("row/9999"), b"9999"


# -- Stories of several ---------------------------------------------------------------------------


@story("thirty clients see one counter")
def _(port):
    clients = [open_store(port) for _ in range(30)]
    yield "in order", [c.add("thirty", 1) for c in clients], list(range(1, 31))


@story("two processes wait for each other two hundred times")
def _(port):
    ping = Child(play, port, "ping", "pong", 200, True)
    pong = Child(play, port, "pong", "ping", 200, False)
    yield "ping", ping.next(), sum(range(200))
    yield "pong", pong.next(), sum(range(200))


@story("one set wakes all who wait")
def _(port):
    waiters = [Child(wait_for, port, "gun") for _ in range(6)]
    for w in waiters:
        w.next()
        w.wait_until_asleep()
    open_store(port).set("gun", "")
    yield "all", [w.next() for w in waiters], [None] * 6


@story("what add creates wakes, and so does what append creates")
def _(port):
    s = open_store(port)
    makers = [("add", lambda key: s.add(key, 1))]
    if hasattr(s, "append"):
        makers.append(("append", lambda key: s.append(key, "1")))
        makers.append(("multi_set", lambda key: s.multi_set([key], ["1"])))
    for name, make in makers:
        waiter = Child(wait_for, port, "made/" + name)
        waiter.next()
        waiter.wait_until_asleep()
        make("made/" + name)
        yield name, waiter.next(), None


@story("a client killed while it waits harms nobody")
def _(port):
    victim, survivor = Child(wait_for, port, "prize"), Child(wait_for, port, "prize")
    for c in (victim, survivor):
        c.next()
        c.wait_until_asleep()
    victim.kill()
    open_store(port).set("prize", "1")
    yield "the other", survivor.next(), None


# -- Stories of the server's own life -------------------------------------------------------------


def late_server(start):
    port = servers.free_port()
    early = Child(come_early, port)
    early.next()
    early.wait_until_asleep()  # refused once, it is counting its seconds
    with start(port):
        return early.next()


def vanishing_server(start):
    with start(0) as server:
        waiter = Child(wait_for, server.port, "never")
        waiter.next()
        waiter.wait_until_asleep()
    return waiter.next()


def compare(name, on, run, ports):
    """Each row against what it had to be, and the two servers' rows against each other."""

    def rows_of(server):
        rows = []
        for what, got, *wanted in run(ports[server]):
            if wanted:
                tap.check_equal(got, wanted[0], "%s, %s" % (server, what))
            rows.append((what, got))
        return rows

    def both():
        rows = {server: rows_of(server) for server in on}
        for ours, original in zip(rows["daemon"], rows.get("original", rows["daemon"])):
            tap.check_equal(ours[1], original[1], "%s, against the original" % ours[0])

    tap.case(name, both)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True, metavar="PROGRAM")
    program = parser.parse_args().server
    tap.start()
    tap.comment("PyTorch %s" % torch.__version__)
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["torch.distributed"])

    with servers.daemon(program) as ours, servers.original() as original:
        ports = {"daemon": ours.port, "original": original.port}
        for name, on, run in stories:
            compare(name, on, run, ports)

    def start_ours(port):
        return servers.daemon(program, port)

    for name, life, wanted in (
        ("a server that starts after its client is found", late_server, 1),
        ("a server that goes away fails the call that waits for it", vanishing_server, None),
    ):

        def both():
            ours, original = life(start_ours), life(servers.original)
            tap.check_equal(ours, original, "ours, against the original")
            if wanted:
                tap.check_equal(ours, wanted, "ours")
            else:
                tap.check_equal(ours.startswith("raises"), True, ours)

        tap.case(name, both)
    tap.done()


if __name__ == "__main__":
    main()
