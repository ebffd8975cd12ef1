# SPDX-License-Identifier: Apache-2.0
#
# torch_safetensors.py --files COMMAND: the safetensors library opens what we write, value for
# value, and we read what it writes, and both refuse the same broken files. COMMAND is
# tests/runtime/ckpt_files.

import argparse
import json
import os
import struct
import subprocess
import tempfile

import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")
try:
    import safetensors
    import safetensors.torch
except ImportError:
    tap.skip_all("python3-safetensors is not installed")

STEP = 3
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def files(*words, fails=False):
    run = subprocess.run(
        [options.files] + list(words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    if (run.returncode != 0) != fails:
        raise AssertionError("%s: %d, %s" % (words, run.returncode, run.stderr + run.stdout))
    return run.stdout


def value_of(which, count):
    """As tests/runtime/checkpoints.h has it, in the same arithmetic."""
    i = torch.arange(count, dtype=torch.float64)
    return ((i + 1) * 1.001 + which * 10000.0 + STEP * 0.37).to(torch.float32)


def shapes(folder):
    """Names and shapes in the order of the data."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]).decode())
    check = header.pop("__metadata__")
    tap.check_equal(check, {"format": "pt"}, "metadata")
    rows = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return [(name, row["shape"]) for name, row in rows]


def cut(flat, names):
    out, at = {}, 0
    for name, shape in names:
        n = 1
        for d in shape:
            n *= d
        out[name] = flat[at : at + n].reshape(shape)
        at += n
    tap.check_equal(at, len(flat), "elements")
    return out


def same(got, want, what):
    tap.check_equal(sorted(got), sorted(want), what + ": names")
    for name in want:
        tap.check_equal(got[name].dtype, want[name].dtype, what + ": type of " + name)
        if not torch.equal(got[name], want[name]):
            raise AssertionError("%s: %s has other values" % (what, name))


def ours(type_name):
    def run():
        with tempfile.TemporaryDirectory() as folder:
            files("write", folder, type_name)
            step = os.path.join(folder, "step-%08d" % STEP)
            names = shapes(step)
            count = os.path.getsize(os.path.join(step, "optimizer", "exp_avg.safetensors")) // 4
            weights = [name for name in os.listdir(step) if name.endswith(".safetensors")]
            tap.check_equal(weights, ["model.safetensors"], "what a loader takes for weights")
            rows = [("model", 0, TYPES[type_name]), ("optimizer/exp_avg", 1, torch.float32)]
            rows += [("optimizer/exp_avg_sq", 2, torch.float32)]
            if type_name != "F32":
                rows.append(("optimizer/master", 0, torch.float32))
            for file, which, dtype in rows:
                path = os.path.join(step, file + ".safetensors")
                got = safetensors.torch.load_file(path)
                count = sum(t.numel() for t in got.values())
                same(got, cut(value_of(which, count).to(dtype), names), file)
            with open(os.path.join(step, "config.json")) as f:
                tap.check_equal(json.load(f)["model_type"], "gpt2", "config.json")

    return run


def theirs(dtype, sharded):
    def run():
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as like:
            files("write", like, "F32")
            step = os.path.join(like, "step-%08d" % STEP)
            model = safetensors.torch.load_file(os.path.join(step, "model.safetensors"))
            names = shapes(step)
            model = {"transformer." + n: model[n].to(dtype).contiguous() for n, _ in names}
            model["transformer.h.0.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
            if sharded:
                keys, index = list(model), {}
                for i, part in enumerate([keys[:7], keys[7:]]):
                    name = "model-%05d-of-00002.safetensors" % (i + 1)
                    rows = {k: model[k] for k in part}
                    safetensors.torch.save_file(rows, os.path.join(folder, name), {"format": "pt"})
                    index.update({k: name for k in part})
                with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
                    json.dump({"metadata": {"total_size": 1}, "weight_map": index}, f)
            else:
                path = os.path.join(folder, "model.safetensors")
                safetensors.torch.save_file(model, path, {"format": "pt"})
            rows = [model["transformer." + n].to(torch.float32).flatten() for n, _ in names]
            want = torch.cat(rows)
            got = [float(v) for v in files("weights", folder).split()]
            if not torch.equal(torch.tensor(got, dtype=torch.float32), want):
                raise AssertionError("other values")

    return run


def every_type():
    """Each type of theirs is read, also those we do not compute with."""
    names = "float32 bfloat16 float16 float64 int32 int64 uint8 bool int8 int16".split()
    model = {n: torch.zeros(2, 3, dtype=getattr(torch, n)) for n in names}
    model["scalar"] = torch.tensor(1.5)
    model["empty"] = torch.zeros(4, 0, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        safetensors.torch.save_file(model, path)
        rows = {line.split()[0]: line.split()[1:] for line in files("list", path).splitlines()}
    tap.check_equal(sorted(rows), sorted(model), "names")
    for name, tensor in model.items():
        begin, end = int(rows[name][1]), int(rows[name][2])
        tap.check_equal(end - begin, tensor.numel() * tensor.element_size(), name)
        tap.check_equal([int(d) for d in rows[name][3:]], list(tensor.shape), name)


def broken():
    """What the library refuses we refuse, and what it takes we take."""
    a = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    rows = [
        ("whole", {"a": a}, 2, True),
        ("spaces behind", json.dumps({"a": a}) + "   ", 2, True),
        ("metadata", {"__metadata__": {"x": "y"}, "a": a}, 2, True),
        ("a number in metadata", {"__metadata__": {"x": 1}, "a": a}, 2, False),
        ("bytes left over", {"a": a}, 3, False),
        ("too short", {"a": a}, 1, False),
        ("a gap", {"a": a, "b": dict(a, data_offsets=[3, 5])}, 5, False),
        ("over another", {"a": a, "b": dict(a, data_offsets=[1, 3])}, 3, False),
        ("shape and offsets", {"a": dict(a, shape=[3])}, 2, False),
        ("a type", {"a": dict(a, dtype="U7")}, 2, False),
        ("no object", "[]", 0, False),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        for name, header, data, taken in rows:
            text = (header if isinstance(header, str) else json.dumps(header)).encode()
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + bytes(data))
            try:
                with open(path, "rb") as f:
                    safetensors.torch.load(f.read())
                library = True
            except Exception:
                library = False
            tap.check_equal(library, taken, "the library, " + name)
            files("list", path, fails=not taken)


parser = argparse.ArgumentParser()
parser.add_argument("--files", required=True)
options = parser.parse_args()
tap.start()
tap.comment("PyTorch %s, safetensors %s" % (torch.__version__, safetensors.__version__))
for name in TYPES:
    tap.case("a checkpoint of type %s opens there" % name, ours(name))
for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
    for sharded in (False, True):
        name = "theirs of %s%s" % (dtype, ", in two files" if sharded else "")
        tap.case(name, theirs(dtype, sharded))
tap.case("every type", every_type)
tap.case("broken files", broken)
tap.done()
