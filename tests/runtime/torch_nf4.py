# SPDX-License-Identifier: Apache-2.0
#
# NF4 as bitsandbytes has it, written here once more from its description, in plain numpy: what `export --dtype nf4` writes has the
# same bits, a run with lora.base "nf4" has the losses of PyTorch with the numbers that come out of it, and such a folder is read.

import argparse
import fractions
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap

import numpy
import torch

import torch_lora
import torch_model

f32 = numpy.float32
CODEBOOK = numpy.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], f32)
# Of bitsandbytes' kernel: half-way between neighbours, but for roundings.
THRESHOLDS = numpy.array([
    -.8480964004993439, -.6106329262256622, -.4599952697753906, -.33967943489551544, -.23460740596055984, -.13791173323988914,
    -.045525018125772476, .03979014977812767, .1202552504837513, .2035212516784668, .2920137718319893, .3893125355243683,
    .5016634166240692, .6427869200706482, .8614784178118011], f32)
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def dynamic_map():
    """What a byte of absmax means: seven decades, each cut twice as fine as the one below it."""
    found = [0.0, 1.0]
    for i in range(7):
        edges = [fractions.Fraction(1, 10) + fractions.Fraction(9 * k, 10 << i) for k in range((1 << i) + 1)]
        means = [fractions.Fraction(10) ** (i - 6) * (a + b) / 2 for a, b in zip(edges, edges[1:])]
        found += [sign * float(x) for x in means for sign in (1, -1)]
    return numpy.sort(numpy.array(found, f32))


def blocks_of(x, size):
    return [x[at:at + size] for at in range(0, len(x), size)]


def nearest(dynamic, v):
    """Half-way, the one with an even number."""
    half = (dynamic[1:] + dynamic[:-1]) * f32(0.5)
    below, at = numpy.searchsorted(half, v, "left"), numpy.searchsorted(half, v, "right")
    return numpy.where((below != at) & (below % 2 == 1), at, below).astype(numpy.uint8)


def pack(w):
    """{suffix: array} of a weight of floats."""
    x = numpy.ascontiguousarray(w, f32).ravel()
    absmax = numpy.array([numpy.abs(b).max() for b in blocks_of(x, 64)], f32)
    v = x * numpy.repeat(f32(1) / numpy.maximum(absmax, f32(1e-38)), 64)[:len(x)]
    codes = numpy.searchsorted(THRESHOLDS, v, "left").astype(numpy.uint8)
    if len(codes) % 2:
        codes = numpy.append(codes, numpy.uint8(7))
    dynamic = dynamic_map()
    offset = f32(absmax.astype(numpy.float64).mean())
    rest = absmax - offset
    nested = numpy.array([numpy.abs(b).max() for b in blocks_of(rest, 256)], f32)
    scaled = rest * numpy.repeat(f32(1) / numpy.maximum(nested, f32(1e-38)), 256)[:len(rest)]
    return {"": (codes[0::2] << 4 | codes[1::2])[:, None], ".absmax": nearest(dynamic, scaled), ".quant_map": CODEBOOK,
            ".nested_absmax": nested, ".nested_quant_map": dynamic, "offset": offset}


def unpack(parts, shape):
    codes = parts[""].ravel()
    codes = numpy.stack([codes >> 4, codes & 15], 1).ravel()[:shape[0] * shape[1]]
    q = parts[".absmax"]
    scale = parts[".nested_quant_map"][q] * numpy.repeat(parts[".nested_absmax"], 256)[:len(q)] + parts["offset"]
    return (CODEBOOK[codes] * numpy.repeat(scale, 64)[:len(codes)]).reshape(shape)


def is_packed(name):
    return name.endswith("_proj.weight") or any(name.endswith(".%s.weight" % n) for n in ("c_attn", "c_proj", "c_fc"))


def rounded(config, weights, bf16=False):
    """The weights as a run in NF4 has them. A GPT-2's are packed [out, in], which is not how they lie in its files."""
    found = {}
    for name, w in weights.items():
        w = w.bfloat16().float() if bf16 else w
        if is_packed(name):
            turned = w.T if config["model_type"] == "gpt2" else w
            out = torch.tensor(unpack(pack(turned.numpy()), turned.shape))
            out = out.bfloat16().float() if bf16 else out
            w = (out.T if config["model_type"] == "gpt2" else out).contiguous()
        found[name] = w
    return found


def read_all(path):
    """{name: array} of a file of safetensors, bytes and floats."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    types = {"U8": numpy.uint8, "F32": f32}
    return {name: numpy.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__"}


def run(program, *words, status=0):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=tap.die_with_parent)
    tap.check_equal(done.returncode, status, "exit status of %r, which said %s" % (words, done.stdout.decode()))
    return done.stdout.decode()


def write_model(folder, config, weights):
    torch_lora.write_json(folder, "config.json", config)
    torch_lora.write_safetensors(os.path.join(folder, "model.safetensors"), weights)


def wide_weights(config):
    """Of blocks that differ much, so that the byte for each tells."""
    weights = torch_model.random_weights(torch_lora.shapes_of(config))
    return {name: w * torch.exp(torch.randn(w.shape[0], 1)) if is_packed(name) else w for name, w in weights.items()}


def exported(program, config):
    """Each part of each weight, bit for bit; and what is exported again from that is the same."""
    torch.manual_seed(5)
    weights = wide_weights(config)
    with tempfile.TemporaryDirectory() as folder:
        full, packed, again = (os.path.join(folder, n) for n in ("full", "packed", "again"))
        write_model(full, config, weights)
        run(program, "export", full, "--to", "hf", "--dtype", "nf4", "-o", packed)
        run(program, "export", packed, "--to", "hf", "--dtype", "nf4", "-o", again)
        got = read_all(os.path.join(packed, "model.safetensors"))
        with open(os.path.join(packed, "config.json"), encoding="utf-8") as f:
            said = json.load(f)["quantization_config"]
        with open(os.path.join(packed, "model.safetensors"), "rb") as a, open(os.path.join(again, "model.safetensors"), "rb") as b:
            tap.check_equal(a.read() == b.read(), True, "what is exported again")
    tap.check_equal((said["quant_method"], said["bnb_4bit_quant_type"], said["load_in_4bit"]), ("bitsandbytes", "nf4", True), "config")
    for name, w in weights.items():
        if not is_packed(name):
            numpy.testing.assert_array_equal(got.pop(name), w.numpy())
            continue
        turned = w.T if config["model_type"] == "gpt2" else w
        wanted = pack(turned.numpy())
        offset = wanted.pop("offset")
        state = json.loads(bytes(got.pop(name + ".quant_state.bitsandbytes__nf4")).decode())
        tap.check_equal(state, {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": list(turned.shape),
                                "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}, name)
        for suffix, part in wanted.items():
            ours = got.pop(name + suffix)
            if ours.shape != part.shape or ours.tobytes() != part.tobytes():
                raise AssertionError("%s%s differs in %d of %d" % (name, suffix, (ours != part).sum(), part.size))
    tap.check_equal(list(got), [], "tensors that nobody asked for")


def trained(program, config, targets, bf16=False, dora=False):
    """Losses as PyTorch has them beside the numbers that come out of NF4; without NF4 they are others."""
    torch.manual_seed(3)
    lora = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": False, "target_modules": targets, "modules_to_save": [],
            "use_dora": dora, "lora_dropout": 0, "plus": 1}
    more = {"lora": {"from": "start", "base": "nf4"}, "bf16": {"enabled": bf16}}
    weights = torch_model.random_weights(torch_lora.shapes_of(config))
    adapters = torch_lora.adapters_for(config, weights, lora)
    words = torch_lora.text(config["vocab_size"])
    with tempfile.TemporaryDirectory() as folder:
        losses, _ = torch_lora.train(program, folder, config, lora, weights, adapters, {}, words, more)
    theirs, _, _ = torch_lora.torch_losses(config, rounded(config, weights, bf16), adapters, {}, lora, torch_lora.samples(words))
    torch_lora.check_losses(losses, theirs)
    full, _, _ = torch_lora.torch_losses(config, weights, adapters, {}, lora, torch_lora.samples(words))
    if abs(full[0] - losses[0]) < 1e-3:
        raise AssertionError("NF4 changes nothing: %g" % full[0])


TYPES = {numpy.dtype(numpy.uint8): "U8", numpy.dtype(f32): "F32", numpy.dtype(numpy.int64): "I64"}


def write_all(path, tensors):
    head, data = {}, b""
    for name, x in tensors.items():
        head[name] = {"dtype": TYPES[x.dtype], "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def state_of(**other):
    """The state of a square weight of 48, with something else in it."""
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [48, 48], "nested_blocksize": 256,
             "nested_dtype": "float32", "nested_offset": 0.5, **other}
    return numpy.frombuffer(json.dumps(state).encode(), numpy.uint8)


def hostile(program):
    """A folder whose parts do not fit each other is refused by the name of what is wrong, and no byte of it breaks the program."""
    torch.manual_seed(5)
    weights = torch_model.random_weights(torch_lora.shapes_of(torch_model.LLAMA))
    name = "model.layers.1.self_attn.q_proj.weight"
    state = ".quant_state.bitsandbytes__nf4"
    big = numpy.full(9, 1e31, f32)
    rows = [
        ({name + ".absmax": None}, ".absmax, which belongs to it, is missing"),
        ({name + state: None}, state + ", which belongs to it, is missing"),
        ({name: None}, "tensor %s is missing" % name),
        ({name: numpy.zeros((1151, 1), numpy.uint8)}, "has 1151 elements; this model's size makes it 1152"),
        ({name: numpy.zeros((48, 48), f32)}, "says how a weight is quantized that is not"),
        ({name: numpy.zeros((1152, 1), numpy.int64)}, "has the shape"),
        ({name + ".absmax": numpy.zeros(37, numpy.uint8)}, "has 37 elements; this model's size makes it 36"),
        ({name + ".absmax": numpy.zeros(36, f32)}, "is not of type U8"),
        ({name + ".quant_map": CODEBOOK[::-1].copy()}, "is not the codebook of NF4"),
        ({name + ".nested_absmax": numpy.zeros(2, f32)}, "has 2 elements; this model's size makes it 1"),
        ({name + ".nested_absmax": big[:1]}, "has 1e+31 at 0, which cannot be"),
        ({name + ".nested_quant_map": numpy.full(256, numpy.nan, f32)}, "has nan at 0"),
        ({"model.norm.weight.absmax": numpy.zeros(1, numpy.uint8)}, "is none of this model's"),
        ({"model.norm.weight": numpy.zeros(48, numpy.uint8)}, "of no float type"),
        ({name + state: state_of(quant_type="fp4")}, 'quant_type is "fp4", and only "nf4" is read'),
        ({name + state: state_of(blocksize=128)}, "blocksize is 128, and only 64 is read"),
        ({name + state: state_of(nested_blocksize=-1)}, "nested_blocksize"),
        ({name + state: state_of(dtype="float8")}, 'dtype "float8" is none of'),
        ({name + state: state_of(shape=[48, 49])}, "shape is not [48, 48]"),
        ({name + state: state_of(shape="48x48")}, "shape is not [48, 48]"),
        ({name + state: state_of(nested_offset=1e300)}, "nested_offset 1e+300 cannot be"),
        ({name + state: state_of(nested_offset="much")}, "nested_offset"),
        ({name + state: numpy.frombuffer(b"{" * 400, numpy.uint8)}, "q_proj.weight" + state),
        ({name + state: numpy.zeros(5000, numpy.uint8)}, "is not the bytes of a short text"),
        ({name + state: numpy.zeros(0, numpy.uint8)}, "is not the bytes of a short text"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        full, packed, bad = (os.path.join(folder, n) for n in ("full", "packed", "bad"))
        write_model(full, torch_model.LLAMA, weights)
        run(program, "export", full, "--to", "hf", "--dtype", "nf4", "-o", packed)
        good = read_all(os.path.join(packed, "model.safetensors"))
        os.mkdir(bad)
        os.link(os.path.join(packed, "config.json"), os.path.join(bad, "config.json"))
        for change, wanted in rows:
            write_all(os.path.join(bad, "model.safetensors"), {n: x for n, x in {**good, **change}.items() if x is not None})
            done = subprocess.run([program, "export", bad, "--to", "hf", "-o", os.path.join(folder, "out")], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, preexec_fn=tap.die_with_parent)
            if done.returncode not in (1, 2) or wanted not in done.stdout.decode():
                raise AssertionError("wanted %r, and it ended with %d and said %s" % (wanted, done.returncode, done.stdout.decode()))
        with open(os.path.join(packed, "model.safetensors"), "rb") as f:
            whole = f.read()
        states = [whole.index(b'{"quant_type"', whole.index(b'{"quant_type"') + 1)]
        places = numpy.random.default_rng(7)
        for i in range(40):
            broken = bytearray(whole)
            at = int(states[0] + places.integers(250)) if i % 2 else int(places.integers(8, len(whole) // 20))
            broken[at] = int(places.integers(256))
            with open(os.path.join(bad, "model.safetensors"), "wb") as f:
                f.write(broken)
            done = subprocess.run([program, "export", bad, "--to", "hf", "-o", os.path.join(folder, "out%d" % i)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=tap.die_with_parent)
            if done.returncode not in (0, 1, 2) or b"Sanitizer" in done.stdout:
                raise AssertionError("byte %d as %d: %s" % (at, broken[at], done.stdout.decode()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    program = parser.parse_args().train
    tap.start(280)
    torch.set_num_threads(1)
    llama = {**torch_model.LLAMA, "hidden_size": 96, "intermediate_size": 344}
    tap.case("the bits of a Llama's weights", lambda: exported(program, llama))
    tap.case("the bits of a GPT-2's weights", lambda: exported(program, torch_model.GPT2))
    tap.case("losses beside a Llama", lambda: trained(program, torch_model.LLAMA, EVERY))
    tap.case("losses beside a Llama in bf16", lambda: trained(program, torch_model.LLAMA, ["q_proj", "v_proj"], True))
    tap.case("losses beside a GPT-2", lambda: trained(program, torch_model.GPT2, ["c_attn", "c_proj"]))
    tap.case("losses beside a Llama, with magnitudes", lambda: trained(program, torch_model.LLAMA, EVERY, dora=True))
    tap.case("losses beside a GPT-2, with magnitudes", lambda: trained(program, torch_model.GPT2, ["c_attn", "c_proj"], dora=True))
    tap.case("a folder that is not what it says", lambda: hostile(program))
    tap.done()


if __name__ == "__main__":
    main()
