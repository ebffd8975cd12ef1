# SPDX-License-Identifier: Apache-2.0
#
# elastic_doctor.py --dtrun COMMAND ...: `dtrun doctor` on each of several hosts, among which something is wrong.

import os

import elastic
import tap
from elastic import story


def line(s, nodes):
    return (*s.tools.dtrun, "doctor", "--nnodes", str(nodes), "--rdzv-backend", "c10d", "--rdzv-endpoint",
            s.endpoint(0), "--rdzv-id", "job")


def doctors(s, *options):
    """One on each host; they meet at host 0, where one of them serves the rendezvous."""
    return [host.run(*line(s, len(s.cluster.hosts)), *options, "--no-python", "true") for host in s.cluster.hosts]


@story(hosts=3)
def well(s):
    """three hosts that are alike: each reaches each, and a folder is the same one on all"""
    folder = os.path.dirname(s.path("shared", ""))
    programs = doctors(s, "--check-folder", folder)
    for number, program in enumerate(programs):
        program.expect("^Between the nodes:")
        program.expect(r"^ok +nodes +3 nodes, alike in all that was compared")
        program.expect(r"^ok +reach +2 of 2 other nodes were asked")
        program.expect(r"^ok +clocks +those of 2 other nodes agree")
        program.expect(r"^ok +bandwidth +about \d+ MB/s over one connection of TCP, in 2 pairs of nodes")
        if number:
            program.expect(r"^ok +shared +%s is that of node0" % folder)
    for program in programs:
        tap.check_equal(program.end() in (0, 3), True, "nothing fails")
    tap.check_equal(os.listdir(folder), [], "what is left in the folder")


@story(hosts=3)
def ill(s):
    """a firewall between two hosts, a small MTU, and a file that is not the same: who has it is named"""
    one, two = s.cluster[1], s.cluster[2]
    one.cut_from(two)
    two.ip("link", "set", "eth0", "mtu", "1400")
    file = s.path("data.bin")
    programs = []
    for number, host in enumerate(s.cluster.hosts):
        own = s.path("own", str(number), "data.bin")
        with open(own, "w", encoding="ascii") as f:
            f.write("abc" if number else "abd")
        with open(file, "w", encoding="ascii") as f:
            f.write("")
        programs.append(host.run(
            "unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', own, file,
            *line(s, 3), "--check-file", file))
    for number, program in enumerate(programs):
        program.expect("^Between the nodes:")
        if number:
            other = 3 - number
            program.expect(r"^FAIL reach +node%d: no connection to 10\.99\.0\.%d:\d+: Connection timed out" % (
                other, other + 1))
        tap.check_equal(program.end(), 1, "exit status of node %d" % number)
        tap.check_equal(program.says("^FAIL elsewhere +node"), True, "that others fail, too")
        tap.check_equal(program.says("node2: MTU 1400, the others 1500"), True, "the MTU")
        tap.check_equal(program.says("^FAIL nodes +node0: file .*data.bin 3 bytes"), True, "the file")


# What `dtrun-train probe` would print of two GPUs.
FAKE_GPUS = r"""#!/bin/sh
echo '{"device":"cuda","index":0,"name":"H100","uuid":"GPU-a","state":"well","flops":%d000000000000}'
echo '{"device":"cuda","index":1,"name":"H100","uuid":"GPU-b","state":"%s","why":"a product","flops":600000000000000}'
"""


@story(hosts=3)
def slow_gpu(s):
    """a GPU that is slower than those of other hosts is named everywhere, and one that is wrong at its host"""
    programs = []
    for number, host in enumerate(s.cluster.hosts):
        train = s.path("bin", str(number), "dtrun-train")
        with open(train, "w", encoding="ascii") as f:
            f.write(FAKE_GPUS % (200 if number == 1 else 600, "wrong" if number == 2 else "well"))
        os.chmod(train, 0o755)
        programs.append(host.run(*line(s, 3), env={
            "DTRUN_PLUGIN_DIR": os.path.dirname(train), "DTRUN_CUDA_PLUGIN": "/libdt_cuda.so"}))
    for number, program in enumerate(programs):
        program.expect("^Between the nodes:")
        tap.check_equal(program.end(), 1, "exit status of node %d" % number)
        wrong = program.says(r"^FAIL compute +GPU 1 \(H100, GPU-b\) is wrong: a product")
        tap.check_equal(wrong, number == 2, "whether a GPU of node %d is wrong" % number)
        slow = program.says(r"^warn compute +node1: GPU 0 \(GPU-a\) multiplies matrices at 200 TFLOP/s; "
                            "the middle one of 5 H100 has 600")
        tap.check_equal(slow, True, "that node %d names the slow one" % number)


@story(hosts=3)
def spare(s):
    """a spare is looked at like all others"""
    programs = [host.run(*line(s, 2), "--spares", "1") for host in s.cluster.hosts]
    for program in programs:
        program.expect("^ok +nodes +3 nodes, alike in all that was compared")
        tap.check_equal(program.end() in (0, 3), True, "nothing fails")


@story(hosts=2)
def late(s):
    """a node that never comes: what is wrong with this one is said all the same"""
    program = s.cluster[0].run(*line(s, 2), "--rdzv-conf", "join_timeout=1")
    program.expect("^ok +host")
    program.expect("^Between the nodes:")
    program.expect("^FAIL nodes +the nodes did not meet")
    tap.check_equal(program.end(), 1, "exit status")


@story(hosts=2)
def remarks(s):
    """what --preflight finds is an event, whether the job begins all the same or not"""
    s.serve(1)
    told = s.cluster[1].run(*s.tools.ctl, "--endpoint", s.endpoint(1), "events", "--json", "--follow")
    broken = {"NCCL_SOCKET_IFNAME": "=nosuch0"}
    event = r'"kind":"preflight_failed",.*"run":"%s","node":"node0",.*names no interface'
    fast = s.agents(2, "--preflight", "fast", at=1, env=broken)
    told.expect(event % "job")
    s.succeed(*fast)
    full = s.agent(0, "--preflight", "full", at=1, run="refused", env=broken)
    told.expect(event % "refused")
    full.reads("the job is not started on this host")
    full.ends(1)
    told.kill()


elastic.main()
