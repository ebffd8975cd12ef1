# SPDX-License-Identifier: Apache-2.0
#
# quick_test.py --build FOLDER: scripts/bundle packs the mock GPU, and quick runs from that archive as it would on a strange host: each
# story in a copy, with programs planted that crash or hang. Speaks TAP. Nothing here says anything about a GPU.

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/system"))
import tap  # noqa: E402

CRASHES = "#!/bin/sh\necho 'ok 1 - before'\nkill -SEGV $$\n"
# It does not end when told to, and what it starts in a session of its own does not either.
SLEEP = "%d" % (400000 + os.getpid())  # of no other run of this test
HANGS = "#!/bin/bash\ntrap '' TERM\nsetsid sleep %s &\necho hanging\nwhile :; do sleep 1 & wait; done\n" % SLEEP
FAILS = "#!/bin/sh\necho 'not ok 1 - sums are \"wrong\"'\nexit 1\n"
WELL = "#!/bin/sh\necho '1..1'\necho 'ok 1 - fine'\n"
SKIPS = "#!/bin/sh\necho '1..0 # SKIP there is one GPU'\n"


class Bundle:
    """An archive, unpacked."""

    def __init__(self, folder, archive):
        self.folder = folder
        with tarfile.open(archive) as t:
            t.extractall(folder)
        self.top = os.path.join(folder, "dtrun-quick")
        self.outs = 0

    def plant(self, program, text):
        path = os.path.join(self.top, "build/tests/gpu/test_gpu_" + program)
        os.remove(path)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def new_out(self):
        self.outs += 1
        return os.path.join(self.folder, "out%d" % self.outs)

    def start(self, *words):
        return subprocess.Popen([os.path.join(self.top, "quick"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, preexec_fn=tap.die_with_parent, cwd=self.folder)

    def run(self, status, *words):
        quick = self.start(*words)
        said = quick.communicate()[0]
        tap.check_equal(quick.returncode, status, "exit status of quick %s, which said\n%s" % (" ".join(words), said))
        return said


def results(out):
    with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def ends(out):
    """{step: (state, says)} by the last word on each."""
    return {r["step"]: (r["state"], r["says"]) for r in results(out) if r.get("state", "begun") != "begun"}


def states(out):
    return {step: state for step, (state, _) in ends(out).items()}


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


def sleeping():
    """Whether a planted program has left something."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/cmdline" % name, "rb") as f:
                    if f.read() == ("sleep\0%s\0" % SLEEP).encode():
                        return True
            except OSError:
                pass
    return False


def expect(text, *words):
    for word in words:
        if word not in text:
            raise AssertionError("there is no %r in\n%s" % (word, text))


def archive_is_whole(b, archive):
    tap.check_equal(os.path.getsize(archive) < 40 << 20, True, "that it is smaller than 40 MiB")
    facts = dict(line.split("=", 1) for line in lines_of(os.path.join(b.top, "BUNDLE")))
    tap.check_equal(facts["mock"], "yes", "that it says of itself to be a mock")
    tap.check_equal(int(facts["glibc"]) > 20, True, "a version of glibc: " + facts["glibc"])
    names = os.listdir(os.path.join(b.top, "lib"))
    for library in ("libuv.so.1", "libcjson.so.1", "libpcre2-8.so.0", "libopenblas.so.0"):
        tap.check_equal(library in names, True, library + " in it")
    for model in ("gpt2", "llama", "qwen3", "mistral"):
        for kind in ("float", "bf16"):
            tap.check_equal(len(lines_of(os.path.join(b.top, "golden", "%s.%s" % (model, kind)))), 5, "steps of " + model)


def one_costs_no_other(b, _):
    out = b.new_out()
    for program, text in (("kit", CRASHES), ("rows", HANGS), ("linear", FAILS), ("loss", SKIPS), ("adamw", WELL)):
        b.plant(program, text)
    said = b.run(1, "--out", out, "--limit", "2", "--only", "test-kit,test-rows,test-linear,test-loss,test-adamw")
    tap.check_equal(ends(out), {
        "test-kit": ("crashed", "killed by SIGSEGV; 1 well"),
        "test-rows": ("hung", "still at work after 2 s"),
        "test-linear": ("failed", "0 well; not ok 1 - sums are \"wrong\""),
        "test-loss": ("skipped", "there is one GPU"),
        "test-adamw": ("passed", "1 well, 0 of them skipped"),
    }, "ends of steps")
    tap.check_equal(sleeping(), False, "that something is left of the one that hung")
    table = lines_of(os.path.join(out, "table.txt"))
    tap.check_equal([line.split()[0] for line in table[1:]], ["crashed", "hung", "failed", "skipped", "passed"], "the table")
    expect(table[0], "ON A MOCK GPU")
    expect(said, "\n".join(table))
    expect("\n".join(lines_of(os.path.join(out, "log.txt"))), "=== test-rows: hung", "hanging", "sums are")
    # What has an end is not tried again, but when asked for.
    before = len(results(out))
    b.run(1, "--out", out, "--only", "test-kit,test-adamw")
    tap.check_equal(len(results(out)), before, "lines after the same line again")
    b.plant("kit", WELL)
    b.run(1, "--out", out, "--again", "--only", "test-kit")  # of the others one still hung
    tap.check_equal(states(out)["test-kit"], "passed", "the last word on a step")


def results_outlive_quick(b, _):
    out = b.new_out()
    b.plant("kit", WELL)
    b.plant("attention", HANGS)
    quick = b.start("--out", out, "--only", "test-kit,test-attention")
    running = os.path.join(out, "running.log")
    while not (os.path.exists(running) and "hanging" in lines_of(running)):
        if quick.poll() is not None:
            raise AssertionError("quick ended: " + quick.communicate()[0])
        time.sleep(0.02)  # for an event that only a file shows
    quick.send_signal(signal.SIGTERM)
    quick.communicate()
    tap.check_equal(states(out), {"test-kit": "passed"}, "ends of steps")
    expect("\n".join(lines_of(os.path.join(out, "table.txt"))), "passed", "test-kit")
    tap.check_equal(sleeping(), False, "that something is left")
    # Begun twice without an end, it is what takes hosts away.
    with open(os.path.join(out, "results.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps({"step": "test-attention", "state": "begun", "seconds": 0, "says": ""}) + "\n")
    b.plant("attention", WELL)
    said = b.run(1, "--out", out, "--only", "test-kit,test-attention")
    expect(said, "lost ", "begun twice and never ended")
    tap.check_equal(states(out)["test-attention"], "lost", "what became of it without a third try")


def time_is_kept(b, _):
    out = b.new_out()
    b.plant("adamw", WELL)
    said = b.run(4, "--out", out, "--minutes", "3", "--only", "test-adamw,test-large")
    tap.check_equal(states(out), {"test-adamw": "passed"}, "steps that fit into three minutes")
    expect(said, "1 step is left: the same line goes on.")


def steps_on_the_mock(b, _):
    out = b.new_out()
    b.run(0, "--out", out, "--only", "facts,plugin,test-kit,golden-llama,kernels-copy,test-cudnn,cudnn-attention,torch-attention,nccl-one-gpu,nccl-pipeline,nccl-blocking,comeback,sanitize-rows")
    told = ends(out)
    expect(told["plugin"][1], "products and memory are well")
    expect(told["golden-llama"][1], "float: loss ", "bf16: loss ", "graphs: same bits", "tensors at most")
    expect(told["kernels-copy"][1], "copy ", "GB/s")
    expect(told["nccl-one-gpu"][1], "two ranks on this GPU by NCCL", "stage 3")
    expect(told["nccl-pipeline"][1], "two stages on this GPU by NCCL", "1f1b", "gpipe")
    expect(told["nccl-blocking"][1], "the host's time of a small all-reduce: ", "us with NCCL_COMM_BLOCKING=0", "us with NCCL_COMM_BLOCKING=1")
    expect(told["comeback"][1], "back at step", "all 12 losses have the same bits")
    expect(told["test-cudnn"][1], "4 well")
    expect(told["cudnn-attention"][1], "dtrun's own kernels: a mock GPU has no cuDNN")
    not_here = ("cudnn-attention", "torch-attention", "sanitize-rows")
    tap.check_equal({s: told[s][0] for s in not_here}, dict.fromkeys(not_here, "skipped"), "steps of what is not here")
    figures = {(r["step"], r["figure"]): r["value"] for r in results(out) if "figure" in r}
    tap.check_equal(figures["golden-llama", "float-loss"] <= 1e-4, True, "figures of golden-llama: %r" % figures)
    tap.check_equal(sorted(os.listdir(out)), ["kernels.jsonl", "log.txt", "results.jsonl", "table.txt"], "files")
    tap.check_equal(len(lines_of(os.path.join(out, "table.txt"))) <= 60, True, "that the table is short")


def wrong_numbers_are_seen(b, _):
    """As when a kernel is wrong: the GPU's losses are not the golden ones."""
    path = os.path.join(b.top, "golden/mistral.float")
    rows = [line.split() for line in lines_of(path)]
    rows[2][1] = "%.9g" % (float(rows[2][1]) * 1.0003)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(" ".join(row) + "\n" for row in rows)
    out = b.new_out()
    b.run(1, "--out", out, "--only", "golden-mistral")
    tap.check_equal(ends(out)["golden-mistral"][0], "failed", "state")
    expect(ends(out)["golden-mistral"][1], "float: loss 0.0003", "too far")


def no_gpu_is_told(b, _):
    if os.path.exists("/dev/nvidiactl"):
        raise tap.Skip("there is a GPU here")
    path = os.path.join(b.top, "BUNDLE")
    facts = lines_of(path)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in facts if not line.startswith("mock="))
    begun = time.monotonic()
    expect(b.run(3, "--out", b.new_out()), "there is no GPU here: neither /dev/nvidiactl nor libcuda.so.1")
    tap.check_equal(time.monotonic() - begun < 10, True, "that it says so at once")


def bad_lines_are_refused(b, archive):
    plain = os.path.join(b.folder, "plain")
    with open(plain, "w", encoding="utf-8"):
        pass
    for words, said in (
            (["--fast"], "--fast is no option"),
            (["--out"], "--out needs a value"),
            (["--minutes", "0"], "--minutes: \"0\" is not a number from 1 to 9999"),
            (["--only", "test-kits"], "no step is called \"test-kits\"; --list prints their names"),
            (["--out", plain + "/x"], "nothing can be written there")):
        expect(b.run(2, *words), said)
    for words, said in (
            ([], "-o FILE.tar.gz is missing"),
            (["-o", "x.zip"], "give a name that ends with .tar.gz"),
            (["-o", "/nowhere/x.tar.gz"], "there is no folder /nowhere"),
            (["-o", archive, "--capability", "90"], "--capability 90: give one such as"),
            (["-o", archive, "--build", b.folder], "build it (ninja -C")):
        job = subprocess.run([os.path.join(TOP, "scripts/bundle"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        tap.check_equal(job.returncode, 2, "exit status of bundle %s, which said %s" % (words, job.stdout))
        expect(job.stdout, said)


# In the places of programs that bench/gpu.sh measures: norms crash, and so does a run without CUDA graphs.
KERNELS = """#!/bin/sh
[ "$2" != norm ] || kill -SEGV $$
echo '{"op": "'$2'", "elem": "bfloat16", "n": 1, "ms": 2.0, "bytes": 4, "operations": 0}'
"""
TRAIN = """#!/bin/sh
! grep -q '"cuda_graphs": false' "$2" || kill -SEGV $$
for step in 1 2 3 4 5; do echo '{"step": '$step', "ms": 7.5}'; done >"$(sed -n 's/.*"metrics": "\\(.*\\)",/\\1/p' "$2")"
"""


def measurements_outlive_a_crash(b, _):
    build, out = os.path.join(b.folder, "build"), b.new_out()
    for name, text in (("bench/gpu_kernels", KERNELS), ("worker_runtime/dtrun-train", TRAIN), ("bench/gpu_allreduce", WELL), ("launcher/dtrun", WELL)):
        path = os.path.join(build, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def bench(status, *words):
        job = subprocess.run([os.path.join(TOP, "bench/gpu.sh"), "--toy", "--no-torch", "--rounds", "1", "--steps", "2", "--build", build, *words],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, "PATH": b.folder + ":" + os.environ["PATH"],
                                                                                                            "DTRUN_CUDA_PLUGIN": b.top + "/BUNDLE"})
        tap.check_equal(job.returncode, status, "exit status of gpu.sh %s, which said\n%s" % (" ".join(words), job.stdout))
        return job.stdout

    with open(os.path.join(b.folder, "nvidia-smi"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n[ \"$1\" != -L ] || echo 'GPU 0: of straw'\n")
    os.chmod(os.path.join(b.folder, "nvidia-smi"), 0o755)
    said = bench(1, "--only", "kernels,train", "--models", "tiny-32", "--out", out)
    measured = [json.loads(line)["op"] for line in lines_of(os.path.join(out, "kernels.jsonl"))]
    tap.check_equal(measured, ["copy", "embedding", "head_norm", "rope", "activation", "linear", "attention", "loss", "optimizer"], "groups")
    tap.check_equal([json.loads(line)["ms"] for line in lines_of(os.path.join(out, "tiny-32.dtrun"))], [7.5], "rounds")
    expect(said, "| optimizer |", "| tiny-32, 1 x 32 | dtrun-train | 7.5 |", "gpu_kernels --only norm --rounds 1 --toy ended with 139")
    tap.check_equal([name for name in os.listdir(out) if name.startswith("tiny-16") or name.endswith("op-by-op")], [], "files of what was not measured")
    expect(bench(2, "--only", "kernel"), "--only: \"kernel\" is none of kernels train reduce")
    expect(bench(2, "--models", "tiny-32,gpt3"), "--models: \"gpt3\" is none of tiny-16 tiny-32")
    expect(bench(2, "--out", b.top + "/BUNDLE/x"), "no folder can be made there")


STORIES = (
    ("an archive has all that quick needs", archive_is_whole),
    ("a step that crashes, hangs or fails costs no other, and is told", one_costs_no_other),
    ("who ends quick early has the results until then", results_outlive_quick),
    ("steps that do not fit into the time are left, and said to be", time_is_kept),
    ("steps run on the mock GPU: golden losses and tensors, kernels, NCCL with two agents, a killed rank", steps_on_the_mock),
    ("losses that are not the CPU's are a failure", wrong_numbers_are_seen),
    ("without a GPU it says so at once", no_gpu_is_told),
    ("bad command lines get one sentence", bad_lines_are_refused),
    ("what the benchmark measured stays when an op and a run crash", measurements_outlive_a_crash),
)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("only", nargs="*")
    a = p.parse_args()
    tap.start(limit=400)
    folder = os.environ["TMPDIR"]
    archive = os.path.join(folder, "mock.tar.gz")
    job = subprocess.run([os.path.join(TOP, "scripts/bundle"), "--mock", "--build", a.build, "-o", archive], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False, env={**os.environ, "GZIP_LEVEL": "1"})
    if job.returncode:
        sys.exit("scripts/bundle ended with %d: %s" % (job.returncode, job.stdout))
    for number, (name, story) in enumerate(STORIES):
        if a.only and story.__name__ not in a.only:
            continue

        def tell(story=story, number=number):
            own = os.path.join(folder, str(number))
            os.mkdir(own)
            story(Bundle(own, archive), archive)
            shutil.rmtree(own)
        tap.case(name, tell)
    tap.done()


main()
