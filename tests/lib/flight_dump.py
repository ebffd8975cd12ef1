#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flight_dump.py SHAPE PROTOCOL STORY          writes to stdout what PyTorch's flight recorder would dump
flight_dump.py serve PREFIX RANK STORY...    plays the thread of PyTorch that dumps: makes the pipe, says "ready", and
                                             dumps one story after the other, each when somebody wrote to the pipe

Made here, as NCCL needs a GPU: the keys are those that the sources of PyTorch 2.2 to 2.7 write. PROTOCOL is 2, 4 or 5 of
Python's own pickler, or "torch" for the opcodes that PyTorch's C++ pickler chooses."""
import os
import pickle
import select
import struct
import sys

SCRIPT = "/home/me/train.py"


class TorchPickler:
    """Protocol 2 as torch/csrc/jit writes it: texts are noted by value, and one item comes behind a mark too."""

    def __init__(self):
        self.out, self.texts, self.notes, self.objects = bytearray(b"\x80\x02"), {}, 0, {}

    def note(self):
        n = self.notes
        self.out += b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n)
        self.notes += 1
        return n

    def again(self, n):
        self.out += b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n)

    def put(self, v):
        if v is None or isinstance(v, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[v]
        elif isinstance(v, int):
            self.put_int(v)
        elif isinstance(v, float):
            self.out += b"G" + struct.pack(">d", v)
        elif isinstance(v, str):
            self.put_text(v)
        elif isinstance(v, tuple):
            for i in v:
                self.put(i)
            self.out += b"\x86"
            self.note()
        elif id(v) in self.objects:
            self.again(self.objects[id(v)])
        else:
            self.put_container(v)

    def put_int(self, v):
        if 0 <= v < 256:
            self.out += b"K" + bytes([v])
        elif 0 <= v < 65536:
            self.out += b"M" + struct.pack("<H", v)
        elif -2**31 <= v < 2**31:
            self.out += b"J" + struct.pack("<i", v)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", v)

    def put_text(self, v):
        if v in self.texts:
            self.again(self.texts[v])
            return
        self.out += b"X" + struct.pack("<I", len(v.encode())) + v.encode()
        self.texts[v] = self.note()

    def put_container(self, v):
        is_dict = isinstance(v, dict)
        self.out += b"}" if is_dict else b"]"
        self.objects[id(v)] = self.note()
        self.out += b"("
        for i in v:
            self.put(i)
            if is_dict:
                self.put(v[i])
        self.out += b"u" if is_dict else b"e"


FRAMES = [
    {"name": "all_reduce", "filename": "/usr/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", "line": 2501},
    {"name": "wrapper", "filename": "/usr/lib/python3.12/site-packages/torch/distributed/c10d_logger.py", "line": 83},
    {"name": "step", "filename": SCRIPT, "line": 42},
    {"name": "<module>", "filename": SCRIPT, "line": 60},
]


def entry(shape, n, state, name="nccl:all_reduce", group=("0", "default_pg"), sizes=((1024,),), types=("Float",), p2p=False, retired=False):
    """Keys in the order of that version's dump()."""
    e = {}
    if shape >= (2, 4):
        e["frames"] = FRAMES
    if shape >= (1, 3):
        e["record_id"] = n
    e["pg_id"] = int(group[0]) if group[0].isdigit() else 0
    if shape >= (2, 0):
        e["process_group"] = group
        e["collective_seq_id"] = 0 if p2p else n
        e["p2p_seq_id"] = n if p2p else 0
        e["op_id"] = n
    else:
        e["seq_id"] = n
    e["profiling_name"] = name
    e["time_created_ns"] = 1753170000000000000 + n
    if state == "completed":
        e["duration_ms"] = 1.5
    e["input_sizes"] = [list(s) for s in sizes]
    if shape >= (2, 0):
        e["input_dtypes"] = list(types)
    e["output_sizes"] = [list(s) for s in sizes]
    if shape >= (2, 0):
        e["output_dtypes"] = list(types)
    e["state"] = state
    if shape >= (1, 1):
        e["time_discovered_started_ns"] = None if state == "scheduled" else 1753170000000000001 + n
        e["time_discovered_completed_ns"] = 1753170000000000002 + n if state == "completed" else None
    e["retired"] = retired or state == "completed"
    if shape >= (2, 4):
        e["timeout_ms"] = 600000
    if shape >= (2, 0):
        e["is_p2p"] = p2p
    if shape < (2, 4):
        e["frames"] = FRAMES
    return e


def stories(shape):
    done = [entry(shape, n, "completed") for n in range(1, 148)]
    gather = dict(name="nccl:_all_gather_base", group=("7", "mesh_dp"), sizes=((8, 2), (3,)), types=("BFloat16", "Long"))
    return {
        "waits": done + [entry(shape, 148, "started"), entry(shape, 149, "scheduled", **gather)],
        "half": done + [entry(shape, 148, "started", sizes=((512,),))],
        "ahead": done + [entry(shape, 148, "completed"), entry(shape, 149, "started")],
        "reduces": done + [entry(shape, 148, "started", name="nccl:reduce")],
        "over": done,
        "gather": done + [entry(shape, 5, "scheduled", **gather)],
        "recv": done + [entry(shape, 9, "started", name="nccl:recv 1<-0", p2p=True)],
        "timed_out": done + [entry(shape, 148, "started", retired=True)],
        "gloo": [entry(shape, 1, "scheduled", name="gloo:all_reduce", retired=True)],
        "barrier": done + [entry(shape, 148, "scheduled", name="nccl:all_reduce_barrier", sizes=(), types=(), group=("3", "undefined"))],
        "none": [],
    }


def dump(shape, story):
    d = {"entries": stories(shape)[story], "version": "%d.%d" % shape}
    if shape >= (1, 3):
        d["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    if shape >= (2, 2):
        d["pg_status"] = {"0": {"last_enqueued_collective": 149, "last_started_collective": 148, "last_completed_collective": 147}}
    return d


def make(shape, protocol, story):
    d = dump(tuple(int(n) for n in shape.split(".")), story)
    if protocol != "torch":
        return pickle.dumps(d, protocol=int(protocol))
    p = TorchPickler()
    p.put(d)
    return bytes(p.out) + b"."


def serve(prefix, rank, *stories):
    pipe = f"{prefix}{rank}.pipe"
    os.mkfifo(pipe, 0o666)
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.open(pipe, os.O_WRONLY)  # so that there is always a writer, and poll() waits; PyTorch looks once a second
    print("ready", flush=True)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    for story in stories:
        poll.poll()
        os.read(fd, 128)
        with open(f"{prefix}{rank}", "wb") as f:
            f.write(make("2.4", "torch", story))
        print("dumped", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        sys.stdout.buffer.write(make(*sys.argv[1:]))
