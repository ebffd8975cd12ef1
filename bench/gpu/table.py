#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/gpu.sh:

    table.py kernels LINES PEAK       an op each, beside the bandwidth of a copy, or PEAK TFLOP/s, and beside PyTorch
    table.py trainings FOLDER PEAK    of names on standard input: FOLDER has NAME.json, and rounds in NAME.dtrun, .op-by-op, .eager, .compiled
    table.py reduces LINES RANKS      all-reduces of RANKS GPUs"""
import json
import os
import sys


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def ratio(a, b):
    return "%.2fx" % (a / b) if a and b else "-"


def number(form, x):
    return form % x if x is not None else "-"


def kernels(path, peak):
    rows = read(path)
    copy = next((row["bytes"] / row["ms"] for row in rows if row["op"] == "copy"), None)
    told = {"op", "elem", "ms", "bytes", "operations", "torch_ms"}
    print("| op | shape | ms | GB/s | of a copy | TFLOP/s | of %g | PyTorch ms | faster |" % peak)
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        shape = ", ".join("%s %s" % (k, v) for k, v in row.items() if k not in told)
        left = "| %s | %s | %.3f " % (row["op"], shape, row["ms"])
        if row["bytes"]:
            speed = row["bytes"] / row["ms"]
            left += "| %.0f | %s | - | - " % (speed * 1e-6, "%.0f %%" % (100 * speed / copy) if copy else "-")
        else:
            speed = row["operations"] / row["ms"] * 1e-9
            left += "| - | - | %.1f | %.0f %% " % (speed, 100 * speed / peak)
        theirs = row.get("torch_ms")
        print(left + "| %s | %s |" % (number("%.3f", theirs), ratio(theirs, row["ms"])))


def operations_of_token(config):
    """Forward and backward: 2 + 4 for each weight that a token meets in a product, and the same for the pairs of attention.
    With the positions of a sample, and how the sum came about."""
    c = config["model"]["config"]
    if c["model_type"] == "gpt2":
        layers, width, positions = c["n_layer"], c["n_embd"], c["n_positions"]
        weights = 12 * width * width
    else:
        layers, width, positions = c["num_hidden_layers"], c["hidden_size"], c["max_position_embeddings"]
        narrow = width // c["num_attention_heads"] * c.get("num_key_value_heads", c["num_attention_heads"])
        weights = 2 * width * width + 2 * width * narrow + 3 * width * c["intermediate_size"]
    said = "6 x (%d x %d + %d x %d) + 6 x %d x %d x %d" % (layers, weights, width, c["vocab_size"], layers, width, positions)
    return 6 * (layers * weights + width * c["vocab_size"]) + 6 * layers * width * positions, positions, said


def trainings(folder, peak):
    print("| model | trained by | ms/step | tokens/s | MFU (of %g TFLOP/s) | peak MiB | dtrun faster | its memory |" % peak)
    print("|---|---|---|---|---|---|---|---|")
    sums = []
    for name in sys.stdin.read().split():
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as f:
            config = json.load(f)
        operations, positions, said = operations_of_token(config)
        sums.append("%s: %s = %.3f GFLOP a token" % (name, said, operations * 1e-9))
        tokens = config["train_batch_size"] * positions
        ours = None
        for kind, who in (("dtrun", "dtrun-train"), ("op-by-op", "without CUDA graphs"), ("eager", "PyTorch"), ("compiled", "torch.compile")):
            rows = read(os.path.join(folder, "%s.%s" % (name, kind)))
            if not rows:
                continue
            row = min(rows, key=lambda r: r["ms"])
            ours = ours or row
            speed = tokens / row["ms"] * 1e3
            print(
                "| %s, %d x %d | %s | %.1f | %.0f | %.1f %% | %s | %s | %s |" % (
                    name, config["train_batch_size"], positions, who, row["ms"], speed, speed * operations / peak * 1e-10,
                    number("%.0f", row["peak_mib"]),
                    ratio(row["ms"], ours["ms"]) if row is not ours else "",
                    ratio(ours["peak_mib"], row["peak_mib"]) if row is not ours else ""))
    print("\nMFU: tokens/s times 6 x (layers x weights of a layer + width x vocabulary) + 6 x layers x width x positions, over the peak.")
    print("\n".join(sums))


def reduces(path, ranks):
    print("| all-reduce of %d GPUs, bytes | ms | GB/s of a GPU's links, 2 (n - 1) / n of the bytes |" % ranks)
    print("|---|---|---|")
    for row in read(path):
        moved = row["bytes"] * 2 * (ranks - 1) / ranks
        print("| %d | %.3f | %.1f |" % (row["bytes"], row["ms"], moved / row["ms"] * 1e-6))


def main():
    {"kernels": kernels, "trainings": trainings, "reduces": reduces}[sys.argv[1]](sys.argv[2], float(sys.argv[3]))


if __name__ == "__main__":
    main()
