#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts PyTorch's own store for a benchmark: prints its version and "listening on HOST:PORT", then
sleeps. Ends by itself after an hour, or when its parent has gone."""

import os
import time

import torch
import torch.distributed as dist

LIFETIME = 3600.0


def open_store():
    wanted = dict(is_master=True, wait_for_workers=False)
    try:
        # Debian's 2.6 is built without libuv and asks for it unless told not to.
        return dist.TCPStore("127.0.0.1", 0, 1, use_libuv=False, **wanted)
    except TypeError:  # before 2.2 there is no such argument
        return dist.TCPStore("127.0.0.1", 0, 1, **wanted)


def main():
    parent = os.getppid()
    store = open_store()
    print(f"torch {torch.__version__}", flush=True)
    print(f"listening on 127.0.0.1:{store.port}", flush=True)
    end = time.monotonic() + LIFETIME
    while time.monotonic() < end and os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)  # the destructor would wait for clients that misbehave


if __name__ == "__main__":
    main()
