# SPDX-License-Identifier: Apache-2.0
#
# Tells dtrun how far this worker is, from any Python script:
#
#   progress = Progress(steps=1000, folder="checkpoints")
#   progress.section("forward")
#   progress.update(step=done, loss=loss.item(), tokens_per_s=rate)
#   save(...)
#   if progress.may_commit(): make it the newest; progress.update(step=done, saved=done)
#
# An update is a few stores into a page of memory that dtrun shares with the worker: no system call,
# no lock, nothing that could wait. The page stays when the worker dies, so dtrun can say in which
# step and section that was. Without dtrun all of this does nothing. The layout: docs/protocol.md.

import math
import mmap
import os
import struct
import time

SIZE = 4096
HEADER = struct.Struct("8sII")  # "DTRNBEAT", version, size
ROUND_OVER, LEASE, UPDATES, VALUES, SECTION, SPENT = 16, 24, 64, 72, 128, 3328
COMMUNICATION, MFU, LOSS_TOLD, FOLDER = 3704, 3712, 3728, 3736


class Progress:
    def __init__(self, steps=-1, folder=None):
        """steps: there will be; folder: where checkpoints are saved, so that dtrun can tell people when
        that disk is almost full."""
        self.values = {"step": -1, "saved": -1, "steps": steps, "loss": math.nan,
                       "tokens_per_s": math.nan, "utilisation": math.nan, "mfu": math.nan}
        self.page = self._map()
        path = os.fsencode(os.path.abspath(folder)) if folder else b""
        if self.page is not None and 0 < len(path) < 256:
            struct.pack_into("256s", self.page, FOLDER, path)

    @staticmethod
    def _map():
        """The page that dtrun made; None without one, or where the number is of another file."""
        try:
            fd = int(os.environ["DTRUN_PROGRESS_FD"])
            if os.fstat(fd).st_size != SIZE:
                return None
            page = mmap.mmap(fd, SIZE)
        except (KeyError, ValueError, OSError):
            return None
        return page if HEADER.unpack_from(page) == (b"DTRNBEAT", 1, SIZE) else None

    def _count(self):
        """Behind all else: who sees the number sees what it counts."""
        before = struct.unpack_from("Q", self.page, UPDATES)[0]
        struct.pack_into("Q", self.page, UPDATES, (before + 1) % 2**64)

    def update(self, **told):
        """step: done; saved: the last that a checkpoint holds; steps: there will be; loss;
        tokens_per_s; utilisation: computing, of all time, 0 to 1; mfu: model FLOPs of what the device
        could do, 0 to 1. What is not told again stays. A loss that is told may be NaN: dtrun says so."""
        unknown = set(told) - set(self.values)
        if unknown:
            raise TypeError("progress knows no %s" % ", ".join(sorted(unknown)))
        self.values.update(told)
        if self.page is None:
            return
        v = self.values
        struct.pack_into("qqqqddd", self.page, VALUES, int(v["step"]), int(v["saved"]),
                         int(v["steps"]), time.monotonic_ns(), float(v["loss"]),
                         float(v["tokens_per_s"]), float(v["utilisation"]))
        struct.pack_into("d", self.page, MFU, float(v["mfu"]))
        if "loss" in told:
            struct.pack_into("I", self.page, LOSS_TOLD, 1)
        self._count()

    def spend(self, own, data=0.0, communication=0.0):
        """Adds seconds of this worker's own part of a step, without what it waited for others, how
        many of them went for its data, and beside them those of communication; right before
        update(). So dtrun finds the worker that holds the others up, also where it waits for a GPU,
        which nobody sees from outside, and tells what a step is spent on."""
        if self.page is None:
            return
        before = struct.unpack_from("qq", self.page, SPENT)
        struct.pack_into("qq", self.page, SPENT, before[0] + int(own * 1e9), before[1] + int(data * 1e9))
        before = struct.unpack_from("q", self.page, COMMUNICATION)[0]
        struct.pack_into("q", self.page, COMMUNICATION, before + int(communication * 1e9))

    def section(self, name):
        """What the worker is about to do: "forward", "checkpoint"; 55 characters of ASCII."""
        if self.page is None:
            return
        text = name.encode("ascii", "replace")[:55]
        struct.pack_into("q56s", self.page, SECTION, time.monotonic_ns(), text)
        self._count()

    def round_over(self):
        """The world changed: the workers are about to be started anew, and nothing may be committed
        any more. (When a person stops the job this stays False: then is the time to save.)"""
        return self.page is not None and struct.unpack_from("I", self.page, ROUND_OVER)[0] != 0

    def may_commit(self):
        """No later world can have begun: ask right before a checkpoint is made the newest. False
        while round_over() is False: dtrun has not heard of the rendezvous for a while; ask again."""
        if self.page is None:
            return True
        lease = struct.unpack_from("q", self.page, LEASE)[0]
        return not self.round_over() and (lease == 0 or time.monotonic_ns() < lease)
