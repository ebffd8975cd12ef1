# SPDX-License-Identifier: Apache-2.0
#
# Scripts that train with PyTorch's gloo, each with one broken line, as people write them; and what is to be found of each.
#
# A body becomes that of main(), below HEAD. The culprit stands at the line that ends in "# HERE".

import collections

HEAD = """
import asyncio, atexit, concurrent.futures, ctypes, fcntl, gc, json, multiprocessing, os, pty, queue, re, signal, socket
import sqlite3, statistics, subprocess, sys, threading, time, urllib.request
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

RANK = int(os.environ["RANK"])


def load_batch(step):
    return torch.ones(4) * step


def train_step(batch):
    dist.all_reduce(batch)


"""
LOOP = """
    dist.init_process_group("gloo")
    for step in range(1000000):
        batch = load_batch(step)
        if step == 3 and RANK == 1:
            {broken}
        train_step(batch)
"""
DATA = """
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, i):
            if {when}:
                {broken}
            return torch.ones(4)
    dist.init_process_group("gloo")
    {before}
    for batch in DataLoader(Data(), num_workers=1):  # HERE
        train_step(batch)
"""
AUTO = ()
SOON = ("--hang-after", "3")  # what auto takes ten seconds for

# CULPRIT: a rank; None: nobody is to blame. SAYS: a pattern that the sentence holds.
# UNTIL: the first version of PyTorch that gets over it; None: none does.
Row = collections.namedtuple("Row", "body kind culprit ranks options says until")


def row(body, kind, culprit=1, ranks=2, options=SOON, says="", until=None):
    return Row(body, kind, culprit, ranks, options, says, until)


def in_loop(broken, kind, **more):
    return row(LOOP.format(broken=broken + "  # HERE"), kind, **more)


def in_data(broken, kind="child", when="RANK == 1 and i == 3", before="pass", **more):
    return row(DATA.format(broken=broken, when=when, before=before), kind, **more)


# Rank 1 does not come back from a line of its own.
OUTSIDE = {
    "a rank sleeps outside, found by itself": in_loop("time.sleep(1000)", "outside", ranks=3, options=AUTO, says="sleeps"),
    "a rank spins": in_loop("while True: pass", "outside", says="computes"),
    "a rank is stopped": in_loop("os.kill(os.getpid(), signal.SIGSTOP)", "stopped"),
    "a rank reads a pipe": in_loop("os.read(os.pipe()[0], 1)", "outside", says="pipe"),
    "a rank opens a FIFO": in_loop("os.mkfifo('fifo'); open('fifo')", "outside"),
    "a rank polls for a file that nobody writes": in_loop(
        "while not os.path.exists('done'): time.sleep(0.05)", "outside"),
    "a rank matches a catastrophic pattern": in_loop("re.compile('(a+)+b').match('a' * 60)", "outside", says="computes"),
    "a rank holds the GIL in a call of C": in_loop("sum(range(10 ** 14))", "outside", says="computes"),
    "a rank asks its terminal": in_loop("sys.stdin = os.fdopen(pty.openpty()[1]); input('go on? ')", "outside"),
    "a rank waits for a signal": in_loop("signal.pause()", "outside"),
    "a server never answers a request": in_loop(
        "s = socket.create_server(('127.0.0.1', 0)); urllib.request.urlopen('http://127.0.0.1:%d/' % s.getsockname()[1])",
        "outside", says="127.0.0.1:"),
    "a socket without an address stays silent": in_loop("a, b = socket.socketpair(); a.recv(1)", "outside"),
    "a server never sends": in_loop(
        "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()).recv(1)",
        "outside", says="waits for a peer.*: 127.0.0.1:"),
    "a coroutine waits for ever": in_loop("asyncio.run(asyncio.Event().wait())", "outside"),
    "a key of the store that nobody sets": in_loop(
        "dist.distributed_c10d._get_default_store().get('tokenizer')", "key", ranks=3,
        says=r"^.*: rank 1 waits in the job's store at \S+ in main\(\) for key \S*tokenizer; ranks 0 and 2 wait in all_reduce"),
    "a child holds the end of a pipe": in_loop(
        "r, w = os.pipe(); pid = os.fork(); pid or time.sleep(1000); os.close(w); os.read(r, 1)", "outside", says="pipe"),
    "a database is locked": row("""
    db = sqlite3.connect("cache.db", timeout=1000, isolation_level=None)
    dist.init_process_group("gloo")
    if RANK == 0:
        db.execute("BEGIN EXCLUSIVE")
    dist.barrier()
    if RANK == 1:
        db.execute("BEGIN EXCLUSIVE")  # HERE
    dist.barrier()
""", "outside"),
    "a file is locked by another rank": row("""
    lock = open("cache.lock", "w")
    dist.init_process_group("gloo")
    if RANK == 0:
        fcntl.flock(lock, fcntl.LOCK_EX)
    dist.barrier()
    if RANK == 1:
        fcntl.flock(lock, fcntl.LOCK_EX)  # HERE
    dist.barrier()
""", "outside", says="cache.lock"),
    "a handler of a signal hangs": row("""
    def save(*_):
        time.sleep(1000)  # HERE
    signal.signal(signal.SIGUSR1, save)
    dist.init_process_group("gloo")
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    dist.barrier()
""", "outside"),
    "a hook of a layer sleeps": row("""
    def hook(module, inputs, output):
        if RANK == 1:
            time.sleep(1000)  # HERE
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    model.module.register_forward_hook(hook)
    model(torch.ones(4)).sum().backward()
""", "outside"),
    "a rank misses a backward of DDP": row("""
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(4):
        loss = model(load_batch(step)).sum()
        if step == 3 and RANK == 1:
            time.sleep(1000)  # HERE
        loss.backward()
""", "outside"),
    "a rank downloads before it wraps its model": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        time.sleep(1000)  # HERE
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
""", "outside", says=r"DistributedDataParallel\(\)"),
    "a rank never comes to init_process_group": row("""
    if RANK == 1:
        time.sleep(1000)  # HERE
    dist.init_process_group("gloo")
""", "outside", ranks=3,
        says=r"ranks 0 and 2 wait in init_process_group at \S+ (\(rank \d: )?for rank 1's address \(key \S+1\)"),
    "a rank never comes to new_group": row("""
    dist.init_process_group("gloo")
    if RANK == 2:
        time.sleep(1000)  # HERE
    dist.new_group([1, 2])
    dist.barrier()
""", "outside", culprit=2, ranks=3, says=r"new_group at .* for the address of rank 1 of group 1 \(key "),
    "a handler of atexit hangs": row("""
    def upload():
        if RANK == 1:
            time.sleep(1000)  # HERE
        dist.barrier()
    dist.init_process_group("gloo")
    atexit.register(upload)
""", "outside"),
    "the monitored barrier lacks a rank": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        time.sleep(1000)  # HERE
    dist.monitored_barrier()
""", "outside", ranks=3),
    "a rank of a group of its own sleeps": row("""
    dist.init_process_group("gloo")
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    if RANK == 3:
        time.sleep(1000)  # HERE
    dist.all_reduce(torch.ones(4), group=groups[RANK // 2])
    dist.barrier()
""", "outside", culprit=3, ranks=4),
}

# Rank 1 does not leave one function, as a loop without an end and long work do: for five times what is too long.
ROUND = ("--hang-after", "2")
LONG = {
    "a rank spins over several lines": row("""
    def search():
        while True:
            while time.time() % 3 < 1: pass

            while 1 <= time.time() % 3 < 2: pass

            while 2 <= time.time() % 3: pass
    dist.init_process_group("gloo")
    if RANK == 1:
        search()
    dist.barrier()
""", "long", ranks=3, options=ROUND,
        says=r"rank 1 loops at \S+ in \S*search\(\) between lines 22 and 26; ranks 0 and 2 wait in barrier"),
    "a rank tries again and again, and sleeps between": row("""
    def connect():
        while True:
            try:
                socket.create_connection(("127.0.0.1", 1), 1)
            except OSError:
                time.sleep(1 - time.time() % 1)
                os.sched_yield()
                time.sleep(1 - time.time() % 1)
    dist.init_process_group("gloo")
    if RANK == 1:
        connect()
    dist.barrier()
""", "long", options=ROUND, says=r"rank 1 loops at \S+ in \S*connect\(\) between lines \d+ and \d+; rank 0 waits in barrier"),
    "a library computes for long": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        statistics.variance(range(10 ** 9))  # HERE
    dist.barrier()
""", "long", options=ROUND, says="rank 1 computes at .*; rank 0 waits in barrier"),
}

# Rank 1 waits for a thread of its own.
THREADS = {
    "a rank waits for a lock": in_loop("lock = threading.Lock(); lock.acquire(); lock.acquire()", "lock"),
    "a queue stays empty": in_loop("queue.Queue().get()", "lock"),
    "a future has no result": in_loop("concurrent.futures.Future().result()", "lock"),
    "a barrier of threads lacks one": in_loop("threading.Barrier(2).wait()", "lock"),
    "all but one rank reach the barrier": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        threading.Event().wait()  # HERE
    dist.barrier()
""", "lock"),
    "two threads take two locks crosswise": row("""
    a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
    def take(first, second):
        with first:
            both.wait()
            second.acquire()
    dist.init_process_group("gloo")
    if RANK == 1:
        threading.Thread(target=take, args=(a, b), daemon=True).start()
        with b:
            both.wait()
            a.acquire()  # HERE
    dist.barrier()
""", "lock"),
    "a pool's thread sleeps": row("""
    def tokenize():
        time.sleep(1000)  # HERE
    dist.init_process_group("gloo")
    if RANK == 1:
        concurrent.futures.ThreadPoolExecutor().submit(tokenize).result()
    dist.barrier()
""", "outside", says="in thread [0-9]+, for which the main thread waits"),
    "a thread keeps Python from its end": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return
    dist.barrier()
""", "left"),
    "a lock of processes was never released": in_loop(
        "lock = multiprocessing.Lock(); lock.acquire(); lock.acquire()", "outside", says="memory that it shares"),
}

# Rank 1 waits for a process of its own.
CHILDREN = {
    "a loader process is stopped": in_data("os.kill(os.getpid(), signal.SIGSTOP)", says="is stopped"),
    "a loader process sleeps": in_data("time.sleep(1000)", says=r"sleeps at \S*train.py:\d+"),
    "a loader process reads a pipe": in_data("os.read(os.pipe()[0], 1)", says=r"waits for .* at \S*train.py:\d+"),
    "a loader process wants a lock that was held at fork": in_data(
        "lock.acquire()", before="lock = threading.Lock(); lock.acquire(); Data.__getitem__.__globals__['lock'] = lock",
        says=r"waits for a lock at \S*train.py:\d+"),
    "all loaders starve alike": in_data("time.sleep(1000)", "starved", when="i == 3", culprit=None),
    "a process of a pool was killed": in_loop("multiprocessing.Pool(1).map(os._exit, [1])", "child"),
    "a program that is run does not return": in_loop("subprocess.run(['sleep', '1000'])", "child", says=r"\(sleep\) sleeps"),
    "a program's child holds its output": in_loop(
        "subprocess.run('sleep 1000 & exit', shell=True, capture_output=True)", "child"),
    "a command does not return": in_loop("os.system('sleep 1000')", "child"),
    "a program is stopped": in_loop("subprocess.run(['sh', '-c', 'kill -STOP $$'])", "child", says=r"\(sh\) is stopped"),
    "a queue of processes stays empty": in_loop("multiprocessing.Queue().get()", "child"),
    "a program never comes to its start": in_loop(
        "os.mkfifo('fifo'); os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'fifo', 0, 0)])",
        "child", says="process [0-9]+ waits for fifo"),
}

# Every rank waits for others.
CALLS = {
    "a rank has left before init_process_group": row("""
    if RANK == 1:
        sys.exit(0)
    dist.init_process_group("gloo")
""", "left", ranks=3),
    "a branch skips a collective": row("""
    dist.init_process_group("gloo")
    if RANK != 1:
        dist.all_reduce(torch.ones(4))
    dist.recv(torch.ones(4), (RANK + 1) % 3)  # HERE
""", "skipped", ranks=3),
    "ranks are in different collectives": row("""
    dist.init_process_group("gloo")
    (dist.broadcast if RANK == 1 else dist.recv)(torch.ones(4), 1 - RANK)  # HERE
""", "mismatch", culprit=None),
    "only rank 0 comes to the barrier": row("""
    dist.init_process_group("gloo")
    for step in range(4):
        if step == 2 and RANK == 0:
            dist.barrier()  # HERE
        train_step(load_batch(step))
""", "mismatch", culprit=0, ranks=3),
    "a rank has fewer batches": row("""
    dist.init_process_group("gloo")
    for step in range(3 if RANK == 1 else 4):
        dist.all_reduce(load_batch(step))
    dist.barrier()  # HERE
""", "skipped", ranks=3),
    "a rank has fewer batches for DDP": row("""
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    for step in range(3 if RANK == 1 else 4):
        model(load_batch(step)).sum().backward()
    dist.barrier()  # HERE
""", "skipped", ranks=3),
    "an exception is swallowed, and a step with it": row("""
    dist.init_process_group("gloo")
    for step in range(4):
        try:
            if step == 2 and RANK == 1:
                raise ValueError("a bad sample")
            dist.all_reduce(load_batch(step))
        except ValueError:
            continue
    dist.barrier()  # HERE
""", "skipped", ranks=3),
    "a barrier in finally": row("""
    dist.init_process_group("gloo")
    try:
        if RANK == 1:
            raise ValueError("a bad sample")
        dist.all_reduce(torch.ones(4))
    finally:
        dist.barrier()  # HERE
""", "skipped", ranks=3),
    "a rank receives what nobody sends": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        dist.recv(torch.ones(4), 0)  # HERE
    train_step(torch.ones(4))
""", "mismatch", ranks=3),
    "all receive and nobody sends": row("""
    dist.init_process_group("gloo")
    dist.recv(torch.ones(4), 1 - RANK)  # HERE
""", "network", culprit=None),
    "rank 0 broadcasts to nobody": row("""
    dist.init_process_group("gloo")
    if RANK != 0:
        dist.broadcast_object_list([None], src=0)
    train_step(torch.ones(4))
""", "mismatch", culprit=0, ranks=3),
    "a rank does not make the group": row("""
    dist.init_process_group("gloo")
    if RANK != 2:
        group = dist.new_group([0, 1])
    train_step(torch.ones(4))
""", "mismatch", culprit=2, ranks=3, until=(2, 0)),
    "a rank makes a group that the others do not make": row("""
    dist.init_process_group("gloo")
    if RANK == 1:
        dist.new_group([0, 1])  # HERE
    train_step(torch.ones(4))
""", "mismatch", ranks=3),
    "the world is larger than the job": row("""
    os.environ["WORLD_SIZE"] = "3"
    dist.init_process_group("gloo")  # HERE
""", "key", culprit=None, says="for rank 2's address .*; this job has no such rank$"),
    "two groups are used in different order": row("""
    dist.init_process_group("gloo")
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    for group in groups if RANK else reversed(groups):
        dist.all_reduce(torch.ones(4), group=group)  # HERE
""", "network", culprit=None),
    "ranks reduce in different order": row("""
    dist.init_process_group("gloo")
    if RANK == 0:
        dist.reduce(torch.ones(4), 1)
        dist.reduce(torch.ones(4), 0)
    else:
        dist.gather(torch.ones(4), [torch.ones(4)] * 2, 1)
    dist.barrier()
""", "skipped", culprit=None),
}

INCIDENTS = {**OUTSIDE, **LONG, **THREADS, **CHILDREN, **CALLS}

# These take long and end; nobody says anything. name: (body, ranks)
QUIET = {
    "a rank prepares its data for long while others wait": ("""
    dist.init_process_group("gloo")
    end = time.monotonic() + 14
    while RANK == 0 and time.monotonic() < end:
        json.loads(json.dumps(list(range(1000))))
    dist.barrier()
""", 2),
    "a rank is slow in each step": ("""
    dist.init_process_group("gloo")
    for step in range(14):
        if RANK == 0:
            time.sleep(1)
        dist.all_reduce(torch.ones(4))
""", 2),
    "a rank saves for long while others wait": ("""
    dist.init_process_group("gloo")
    end = time.monotonic() + 14
    if RANK == 0:
        while time.monotonic() < end: torch.save([torch.ones(1000) for _ in range(1000)], "checkpoint.pt")
    dist.barrier()
""", 2),
    "a job with long steps": ("""
    dist.init_process_group("gloo")
    for step in range(4):
        time.sleep(4)
        dist.all_reduce(torch.ones(4))
""", 2),
    "a process that sleeps": ("\n    time.sleep(14)\n", 1),
}
