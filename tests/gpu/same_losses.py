# SPDX-License-Identifier: Apache-2.0
#
# The first steps of a configuration on the CPU and on the GPU: in float the losses are equal to 1e-4, in bfloat16 within 1 %.
# Its data is replaced by a text of the tree, cut into tokens of two bytes, since the real ones are not in it.

import argparse
import json
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tokens(path):
    """Pairs of letters as numbers, so that most of a large vocabulary is met; too few samples begin again."""
    text = b"".join(open(os.path.join(TOP, "docs", name), "rb").read() for name in sorted(os.listdir(os.path.join(TOP, "docs"))))
    pairs = [(text[i] * 251 + text[i + 1]) % 50257 for i in range(len(text) - 1)]
    with open(path, "wb") as f:
        f.write(b"".join(p.to_bytes(2, "little") for p in pairs))


def losses(a, folder, data, device, half):
    metrics = os.path.join(folder, "%s-%s.jsonl" % (device, half))
    sets = ["train.steps=%d" % a.steps, "train.device=%s" % device, "bf16.enabled=%s" % ("true" if half else "false"),
            "train_batch_size=%d" % a.batch, "train_micro_batch_size_per_gpu=%d" % a.batch, "data.sequence_length=%d" % a.length,
            "scheduler.params.warmup_num_steps=2", "data.train=" + data, "train.metrics=" + metrics, "train.save_dir=" + folder + "/none",
            "train.save_every=0", *a.set]
    words = [a.train, "--config", a.config, "--resume", "none"] + [w for s in sets for w in ("--set", s)]
    subprocess.run(words, check=True, env={**os.environ, **({"DTRUN_CUDA_PLUGIN": a.plugin} if a.plugin else {})})
    with open(metrics, encoding="utf-8") as f:
        return [row["loss"] for row in map(json.loads, f) if "loss" in row]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train", required=True)
    p.add_argument("--config", required=True)
    p.add_argument("--plugin")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--set", action="append", default=[])
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="dtrun-losses-") as folder:
        data = os.path.join(folder, "data.bin")
        tokens(data)
        for half, most in ((False, 1e-4), (True, 0.01)):
            cpu, cuda = (losses(a, folder, data, device, half) for device in ("cpu", "cuda"))
            if len(cpu) != a.steps or len(cuda) != a.steps:
                sys.exit("%d and %d losses, %d were wanted" % (len(cpu), len(cuda), a.steps))
            worst = max(abs(x - y) / abs(x) for x, y in zip(cpu, cuda))
            print("%s: %s on the CPU, %s on the GPU: %.2g apart, at most %g" % (
                "bfloat16" if half else "float", ["%.5f" % x for x in cpu], ["%.5f" % x for x in cuda], worst, most), flush=True)
            bad += not worst <= most
    sys.exit(1 if bad else 0)


main()
