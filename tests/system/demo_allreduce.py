# SPDX-License-Identifier: Apache-2.0
#
# demo_allreduce.py --server PROGRAM | --connect HOST:PORT: four PyTorch processes find each other
# through dtrun-rendezvous and add up one tensor. Says in a dozen lines who met where, what each
# brought, and what each got.

import argparse
import contextlib
import importlib.util
import sys

import gloo_group
import servers
import tap

WORLD = 4


def words(tensor):
    return "[%s]" % ", ".join("%g" % x for x in tensor)


@contextlib.contextmanager
def meeting_place(program, connect):
    """The port of the store. Ours to start and stop, or somebody's who said where it is."""
    if connect:
        host, _, port = connect.rpartition(":")
        if host not in (servers.HOST, "localhost"):
            sys.exit("--connect %s: the demo's processes meet on 127.0.0.1 only" % connect)
        print("dtrun-rendezvous is said to listen on %s:%s" % (servers.HOST, port))
        yield int(port)
        return
    with servers.daemon(program) as server:
        pid = server.process.pid
        print("dtrun-rendezvous (pid %d) listens on %s:%d" % (pid, servers.HOST, server.port))
        yield server.port


def main():
    parser = argparse.ArgumentParser()
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="PROGRAM", help="start this dtrun-rendezvous")
    where.add_argument("--connect", metavar="HOST:PORT", help="use the one that runs there")
    options = parser.parse_args()
    tap.start()

    with meeting_place(options.server, options.connect) as port:
        print("%d processes start; none of them hosts a store" % WORLD, flush=True)
        members = gloo_group.run(port, WORLD)
        version = members[0]["torch"]
        print("they met there, and then talked over gloo on loopback (PyTorch %s):" % version)
    total = [sum(column) for column in zip(*(m["mine"] for m in members))]
    for rank, told in enumerate(members):
        print(
            "  rank %d (pid %d) brought %-10s and got %s"
            % (rank, told["pid"], words(told["mine"]), words(told["all_reduce"]))
        )
    if any(told["all_reduce"] != total for told in members):
        sys.exit("all_reduce is wrong: the sum is %s" % words(total))
    print("%s is the sum, and everybody has it" % words(total))
    return 0


if __name__ == "__main__":
    if not importlib.util.find_spec("torch"):
        tap.skip_all("python3-torch is not installed")
    sys.exit(main())
