#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder with a model of the shape of Qwen2.5-0.5B, in bf16, by chance: qwen.py FOLDER."""
import json
import math
import os
import random
import struct
import sys

WIDTH, INNER, KEYS, WORDS, LAYERS = 896, 4864, 128, 151936, 24
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": WIDTH, "intermediate_size": INNER,
    "num_hidden_layers": LAYERS, "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
    "vocab_size": WORDS, "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
}
LAYER = {
    "input_layernorm.weight": [WIDTH], "post_attention_layernorm.weight": [WIDTH],
    "self_attn.q_proj.weight": [WIDTH, WIDTH], "self_attn.q_proj.bias": [WIDTH],
    "self_attn.k_proj.weight": [KEYS, WIDTH], "self_attn.k_proj.bias": [KEYS],
    "self_attn.v_proj.weight": [KEYS, WIDTH], "self_attn.v_proj.bias": [KEYS], "self_attn.o_proj.weight": [WIDTH, WIDTH],
    "mlp.gate_proj.weight": [INNER, WIDTH], "mlp.up_proj.weight": [INNER, WIDTH], "mlp.down_proj.weight": [WIDTH, INNER],
}


def bf16(x):
    return struct.pack("<f", x)[2:]


def main():
    shapes = {"model.embed_tokens.weight": [WORDS, WIDTH], "model.norm.weight": [WIDTH]}
    for layer in range(LAYERS):
        shapes.update({"model.layers.%d.%s" % (layer, name): shape for name, shape in LAYER.items()})
    head, at = {}, 0
    for name, shape in shapes.items():
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * math.prod(shape)]}
        at = head[name]["data_offsets"][1]
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    chance = random.Random(1)
    some = b"".join(bf16(chance.gauss(0, 0.02)) for _ in range(1 << 18))
    os.makedirs(sys.argv[1], exist_ok=True)
    with open(os.path.join(sys.argv[1], "config.json"), "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    with open(os.path.join(sys.argv[1], "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            left = 2 * math.prod(shape)
            source = bf16(1) * math.prod(shape) if "norm" in name else some
            while left > 0:
                left -= f.write(source[:left])


main()
