#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a benchmark's configuration of an example's: config.py EXAMPLE POSITIONS BATCH STEPS TOKENS METRICS [op-by-op]

One GPU, bfloat16, batches of BATCH x POSITIONS tokens without accumulation, nothing saved, no activations computed twice. The
result, plain JSON, is what both dtrun-train and torch_train.py read."""
import json
import re
import sys


def read_jsonc(path):
    """Comments and commas before a bracket are what JSON lacks; a string may hold neither here."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"//[^\n]*", "", f.read())
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))


def main():
    example, positions, batch, steps, tokens, metrics = sys.argv[1:7]
    c = read_jsonc(example)
    model = c["model"]["config"]
    model["n_positions" if model["model_type"] == "gpt2" else "max_position_embeddings"] = int(positions)
    c["model"].pop("activation_checkpointing", None)
    c["train_batch_size"] = c["train_micro_batch_size_per_gpu"] = int(batch)
    c["bf16"] = {"enabled": True}
    c["zero_optimization"] = {"stage": 0}
    c.pop("scheduler", None)
    c["data"] = {"train": tokens, "raw_width": 2}
    c["train"] = {"steps": int(steps), "seed": 1, "log_every": 10, "metrics": metrics, "device": "cuda"}
    c["train"]["cuda_graphs"] = "op-by-op" not in sys.argv[7:]
    json.dump(c, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
