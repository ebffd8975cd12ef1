# SPDX-License-Identifier: Apache-2.0
#
# torch_gloo.py --server PROGRAM: four processes form gloo groups through our store in the way of
# an agent's workers, and compute what they compute through PyTorch's own. Each group has a fresh
# store.

import argparse

import gloo_group
import servers
import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

WORLD = 4


def check(members):
    for rank, told in enumerate(members):
        who = "rank %d, " % rank
        tap.check_equal(told["all_reduce"], [10.0, 1111.0], who + "all_reduce")
        tap.check_equal(told["broadcast"], [42], who + "broadcast")
        tap.check_equal(told["all_gather"], [0, 1, 4, 9], who + "all_gather")
        tap.check_equal(told["pids"], [m["pid"] for m in members], who + "all_gather_object")
        tap.check_equal(told["half"], 2.0 if rank < WORLD // 2 else 1.0, who + "all_reduce of half")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True, metavar="PROGRAM")
    program = parser.parse_args().server
    tap.start()
    tap.comment("PyTorch %s" % torch.__version__)

    def group_on(start):
        with start() as server:
            check(gloo_group.run(server.port, WORLD))

    tap.case("gloo through PyTorch's own store", lambda: group_on(servers.original))
    for attempt in (1, 2, 3):
        tap.case(
            "gloo through dtrun-rendezvous, attempt %d" % attempt,
            lambda: group_on(lambda: servers.daemon(program)),
        )
    tap.done()


if __name__ == "__main__":
    main()
