# SPDX-License-Identifier: Apache-2.0
"""Each op of the CPU's tables against PyTorch, forward and backward: GPT-2's and Llama's layers,
the loss, AdamW and Adam, conversions. The reference and the fast table both; TAP on stdout.

    torch_ops.py LIBRARY      the library is built of ops_library.c
"""
import ctypes
import math
import sys

import torch
import torch.nn.functional as F

P, SIZE, FLOAT, INT, BOOL = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float, ctypes.c_int,
                             ctypes.c_bool)
F32, BF16, F16, F64 = range(4)
TORCH = {F32: torch.float32, BF16: torch.bfloat16, F16: torch.float16, F64: torch.float64}


def struct(**fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": list(fields.items())})


Embedding = struct(rows=SIZE, positions=SIZE, width=SIZE, vocabulary=SIZE, ids=P, first=SIZE, places=P)
Norm = struct(rows=SIZE, width=SIZE, eps=FLOAT, plus=FLOAT, weight=P, bias=P, mean=P, rstd=P)
HeadNorm = struct(rows=SIZE, heads=SIZE, head_dim=SIZE, stride=SIZE, eps=FLOAT, plus=FLOAT, weight=P)
Rope = struct(rows=SIZE, positions=SIZE, heads=SIZE, head_dim=SIZE, stride=SIZE, speeds=P,
              scale=FLOAT, first=SIZE)
Linear = struct(rows=SIZE, inputs=SIZE, outputs=SIZE, out_stride=SIZE, layout=INT, weight=P, bias=P)
Gate = struct(rows=SIZE, width=SIZE, stride=SIZE)
Magnitude = struct(rows=SIZE, width=SIZE, stride=SIZE, magnitudes=P, bias=P, rnorms=P)
Dropout = struct(start=ctypes.c_uint64, gone_below=ctypes.c_uint32, scale=FLOAT, width=SIZE, pitch=SIZE)
Attention = struct(batch=SIZE, queries=SIZE, keys=SIZE, first=SIZE, window=SIZE, documents=P,
                   heads=SIZE, kv_heads=SIZE, head_dim=SIZE, scale=FLOAT, cap=FLOAT, q_stride=SIZE,
                   k_stride=SIZE, v_stride=SIZE, out_stride=SIZE, q=P, k=P, v=P, logsum=P, dropout=Dropout,
                   all_heads=SIZE, first_head=SIZE, keys_from=SIZE, keys_to=SIZE, joins=BOOL)
CrossEntropy = struct(rows=SIZE, vocabulary=SIZE, stride=SIZE, targets=P, scale=FLOAT, cap=FLOAT,
                       weights=P)
AdamW = struct(beta1=FLOAT, beta2=FLOAT, eps=FLOAT, bias1=FLOAT, bias2=FLOAT, grad_scale=FLOAT,
               decoupled=BOOL, float_grads=BOOL, model_type=INT)
AdamWPart = struct(count=SIZE, master=P, exp_avg=P, exp_avg_sq=P, params=P, grads=P, lr=FLOAT,
                   weight_decay=FLOAT, chance=ctypes.c_uint64, chance_at=ctypes.c_uint64)
SquaresPart = struct(count=SIZE, x=P)

# In the order of struct dt_ops.
OPS = {
    "embedding_forward": [P] * 4, "embedding_backward": [P] * 4,
    "norm_forward": [P] * 5, "norm_backward": [P] * 6,
    "head_norm_forward": [P] * 3, "head_norm_backward": [P] * 5,
    "rope": [P, P, BOOL],
    "linear_forward": [P] * 3, "linear_gelu_forward": [P] * 4,
    "linear_backward": [P, P, BOOL, P, P, P, P], "linear_gelu_backward": [P] * 7,
    "attention_forward": [P] * 2, "attention_backward": [P] * 6,
    "gelu_forward": [SIZE, P, P], "gelu_backward": [SIZE, P, P, P],
    "swiglu_forward": [P] * 4, "swiglu_backward": [P] * 6, "geglu_forward": [P] * 4, "geglu_backward": [P] * 6,
    "cross_entropy": [P, P, P, BOOL], "cross_entropy_sums": [P] * 3, "cross_entropy_join": [P, SIZE, P, P, P, BOOL],
    "add": [SIZE, P, P], "add_to_floats": [SIZE, P, P], "copy_rows": [SIZE, SIZE, P, SIZE, P, SIZE],
    "dropout": [P, SIZE, P, BOOL, P], "adamw": [P, SIZE, P],
    "sum_squares": [INT, SIZE, P, P], "cast": [SIZE, P, INT, P, INT], "round_to": [SIZE, P, INT], "nf4_expand": [P] * 2,
    "magnitude_norms": [P, SIZE, FLOAT, P, P, P], "magnitude_forward": [P] * 4, "magnitude_backward": [P] * 7,
}
Table = struct(name=ctypes.c_char_p, elem=INT,
               **{name: ctypes.CFUNCTYPE(None, *args, P) for name, args in OPS.items()})


class Ops:
    """A table whose ops take tensors and structs."""

    def __init__(self, table, stream):
        self.table, self.stream = table, stream

    def __getattr__(self, op):
        call = getattr(self.table, op)
        return lambda *args: call(*[at(a) for a in args], self.stream)


def at(x):
    if isinstance(x, torch.Tensor):
        assert x.is_contiguous()
        return x.data_ptr()
    return ctypes.addressof(x) if isinstance(x, ctypes.Structure) else x


def make(kind, **fields):
    return kind(**{name: at(value) for name, value in fields.items()})


def near(what, got, wanted, error=1e-5):
    wanted = wanted.detach()
    largest = max(1.0, wanted.abs().max().item())
    off = (got.double() - wanted.double()).abs().max().item()
    assert off <= error * largest, f"{what}: off by {off} where the largest is {largest}"


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


def raw(x):
    return x.detach().contiguous()


def embedding(ops, placed):
    b, t, c, v = 3, 17, 33, 50
    ids = torch.randint(v, (b * t,), dtype=torch.int32)
    places = torch.randint(t, (b * t,), dtype=torch.int32) if placed else torch.arange(t, dtype=torch.int32).repeat(b)
    token, position = leaf(v, c), leaf(t, c)
    want = token[ids.long()] + position[places.long()]
    e = make(Embedding, rows=b * t, positions=t, width=c, vocabulary=v, ids=ids, places=places if placed else None)
    out, dout = torch.empty(b * t, c), torch.randn(b * t, c)
    ops.embedding_forward(e, out, raw(token), raw(position))
    near("out", out, want)
    want.backward(dout)
    dtoken, dposition = torch.zeros(v, c), torch.zeros(t, c)
    ops.embedding_backward(e, dtoken, dposition, dout)
    near("dtoken", dtoken, token.grad)
    near("dposition", dposition, position.grad)


def norm(ops, layer, plus=0.0):
    n, c, eps = 37, 65, 1e-5
    x, add, weight, bias = leaf(n, c), torch.randn(n, c), leaf(c), leaf(c)
    total = x + add
    if layer:
        want = F.layer_norm(total, (c,), weight, bias, eps)
    else:
        want = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps) * (weight + plus)
    mean, rstd, out, got = torch.empty(n), torch.empty(n), torch.empty(n, c), torch.empty(n, c)
    w, b = raw(weight), raw(bias)
    s = make(Norm, rows=n, width=c, eps=eps, plus=plus, weight=w, bias=b if layer else None,
             mean=mean if layer else None, rstd=rstd)
    ops.norm_forward(s, out, got, raw(x), add)
    near("sum", got, total)
    near("out", out, want)
    dout = torch.randn(n, c)
    want.backward(dout)
    dx, dweight, dbias = torch.zeros(n, c), torch.zeros(c), torch.zeros(c)
    ops.norm_backward(s, dx, dweight, dbias if layer else None, got, dout)
    near("dx", dx, x.grad)
    near("dweight", dweight, weight.grad)
    if layer:
        near("dbias", dbias, bias.grad)


def head_norm(ops, plus):
    n, h, d, eps = 37, 3, 20, 1e-6
    x, weight, dout = leaf(n, h, d), leaf(d), torch.randn(n, h, d)
    want = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (weight + plus)
    want.backward(dout)
    w, flat, out, dweight = raw(weight), raw(x), torch.empty(n, h, d), torch.zeros(d)
    s = make(HeadNorm, rows=n, heads=h, head_dim=d, stride=h * d, eps=eps, plus=plus, weight=w)
    ops.head_norm_forward(s, out, flat)
    near("out", out, want)
    ops.head_norm_backward(s, dout, dweight, flat, dout)
    near("dx", dout, x.grad)
    near("dweight", dweight, weight.grad)


def turned(x, speed, scale):
    """x [b, t, heads, d] with rotary positions, as Hugging Face's Llama has them."""
    t, d = x.shape[1], x.shape[3]
    angle = torch.outer(torch.arange(t).float(), speed)
    angle = torch.cat((angle, angle), -1)[None, :, None, :]
    half = torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1)
    return x * angle.cos() * scale + half * angle.sin() * scale


def rope(ops):
    b, t, h, d, scale = 2, 70, 3, 16, 1.2
    x, dout = leaf(b, t, h, d), torch.randn(b, t, h, d)
    speed = 1.0 / 10000.0 ** (torch.arange(0, d, 2).float() / d)
    want = turned(x, speed, scale)
    want.backward(dout)
    r = make(Rope, rows=b * t, positions=t, heads=h, head_dim=d, stride=h * d, speeds=speed,
             scale=scale)
    got, back = raw(x).clone(), dout.clone()
    ops.rope(r, got, False)
    ops.rope(r, back, True)
    near("turned", got, want)
    near("gradient", back, x.grad)


def linear(ops, layout, biased):
    n, i, o = 45, 70, 33
    x, weight, bias = leaf(n, i), leaf(*((i, o) if layout == 0 else (o, i))), leaf(o)
    pre = x @ (weight if layout == 0 else weight.t()) + (bias if biased else 0)
    w, b, flat = raw(weight), raw(bias), raw(x)
    line = make(Linear, rows=n, inputs=i, outputs=o, layout=layout, weight=w,
                bias=b if biased else None)
    out, kept, dout = torch.empty(n, o), torch.empty(n, o), torch.randn(n, o)
    ops.linear_forward(line, out, flat)
    near("out", out, pre, 2e-5)
    ops.linear_gelu_forward(line, out, kept, flat)
    near("pre", kept, pre, 2e-5)
    near("gelu", out, gelu_tanh(pre), 2e-5)
    pre.backward(dout)
    dx, dweight, dbias = torch.empty(n, i), torch.zeros_like(w), torch.zeros(o)
    ops.linear_backward(line, dx, False, dweight, dbias if biased else None, flat, dout)
    near("dx", dx, x.grad, 2e-5)
    near("dweight", dweight, weight.grad, 2e-5)
    if biased:
        near("dbias", dbias, bias.grad, 2e-5)
    behind_gelu(ops, line, weight, dout)


def behind_gelu(ops, line, weight, dout):
    """The way back of a layer whose input GELU made."""
    before = leaf(line.rows, line.inputs)
    fed = gelu_tanh(before)
    weight.grad = None
    (fed @ (weight if line.layout == 0 else weight.t())).backward(dout)
    dpre, dweight = torch.empty_like(before), torch.zeros_like(weight)
    ops.linear_gelu_backward(line, dpre, dweight, None, raw(fed), raw(before), dout)
    near("dpre behind gelu", dpre, before.grad, 2e-5)
    near("dweight behind gelu", dweight, weight.grad, 2e-5)


def magnitude(ops, layout, dropped):
    """DoRA as its authors write it, with the norm as a constant on the way back."""
    n, i, o, r, s = 40, 70, 33, 5, 0.75
    x, y = leaf(n, i), torch.randn(n, i)
    weight, a, b = torch.randn(o, i), leaf(r, i), leaf(o, r)
    m, bias, dout = leaf(o), torch.randn(o), torch.randn(n, o)
    norm = (weight + s * (b @ a)).norm(dim=1).detach()
    fed = (x * y if dropped else x).detach()
    base, total = (fed @ weight.t()).requires_grad_(), (s * fed @ a.t() @ b.t()).detach().requires_grad_()
    plain = x.detach() @ weight.t() + bias
    want = plain + (m / norm - 1) * base + m / norm * total
    want.backward(dout)
    w = (weight.t() if layout == 0 else weight).contiguous()
    line = make(Linear, inputs=i, outputs=o, layout=layout, weight=w)
    rnorms, out, dm = torch.empty(o), plain.clone(), torch.zeros(o)
    ops.magnitude_norms(line, r, s, raw(a), raw(b), rnorms)
    near("1 / norm", rnorms, 1 / norm, 1e-6)
    flat = raw(m)
    mag = make(Magnitude, rows=n, width=o, stride=o, magnitudes=flat, bias=bias, rnorms=rnorms)
    ops.magnitude_forward(mag, out, raw(base) if dropped else None, raw(total))
    near("out", out, want, 2e-6)
    dsum, dbase = torch.empty(n, o), torch.empty(n, o)
    ops.magnitude_backward(mag, dsum, dbase, dm, raw(base), raw(total), dout)
    near("dsum", dsum, total.grad, 2e-6)
    near("dbase", dbase, base.grad, 2e-6)
    near("dmagnitudes", dm, m.grad, 2e-5)


def attention(ops, b, t, h, kv, d, scale=0.0, cap=0.0):
    """q, k, v side by side in one array, as a fused projection leaves them."""
    width = (h + 2 * kv) * d
    qkv, dout = leaf(b, t, width), torch.randn(b, t, h * d)
    q, k, v = qkv.split((h * d, kv * d, kv * d), -1)
    q, k, v = (x.view(b, t, -1, d).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(h // kv, 1) for x in (k, v))
    score = q @ k.transpose(2, 3) * (scale or 1 / math.sqrt(d))
    score = cap * torch.tanh(score / cap) if cap else score
    score = score.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
    want = (score.softmax(-1) @ v).transpose(1, 2).reshape(b, t, h * d)
    want.backward(dout)
    flat, logsum, out = raw(qkv), torch.empty(b, h, t), torch.empty(b, t, h * d)
    step = 4 * d
    a = make(Attention, batch=b, queries=t, keys=t, heads=h, kv_heads=kv, head_dim=d, scale=scale,
             cap=cap, q_stride=width, k_stride=width, v_stride=width, out_stride=h * d, q=flat, k=flat.data_ptr() + step * h,
             v=flat.data_ptr() + step * (h + kv), logsum=logsum)
    ops.attention_forward(a, out)
    near("out", out, want)
    near("logsum", logsum, score.logsumexp(-1))
    got = torch.full((b, t, width), math.nan)
    ops.attention_backward(a, got, got.data_ptr() + step * h, got.data_ptr() + step * (h + kv),
                           out, dout)
    near("gradients", got, qkv.grad, 2e-5)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def activations(ops):
    n = 4001
    x, up, dout = leaf(n), leaf(n), torch.randn(n)
    x.data *= 3
    flat, other, out, first, second = raw(x), raw(up), *(torch.empty(n) for _ in range(3))
    gate = make(Gate, rows=1, width=n)
    want = gelu_tanh(x)
    want.backward(dout)
    ops.gelu_forward(n, out, flat)
    ops.gelu_backward(n, first, flat, dout)
    near("gelu", out, want, 1e-6)
    near("gelu backward", first, x.grad, 1e-6)
    x.grad = None
    want = F.silu(x) * up
    want.backward(dout)
    ops.swiglu_forward(gate, out, flat, other)
    ops.swiglu_backward(gate, first, second, flat, other, dout)
    near("swiglu", out, want, 1e-6)
    near("dgate", first, x.grad, 1e-6)
    near("dup", second, up.grad, 1e-6)
    x.grad = up.grad = None
    want = gelu_tanh(x) * up
    want.backward(dout)
    ops.geglu_forward(gate, out, flat, other)
    ops.geglu_backward(gate, first, second, flat, other, dout)
    near("geglu", out, want, 1e-6)
    near("dgate of geglu", first, x.grad, 1e-6)
    near("dup of geglu", second, up.grad, 1e-6)
    ops.add(n, out, dout)
    near("add", out, want + dout, 1e-6)
    ops.add_to_floats(n, out, dout)
    near("add to floats", out, want + 2 * dout, 1e-6)


def cross_entropy(ops, cap=0.0):
    n, v, stride, scale = 30, 101, 104, 0.125
    logits, targets = leaf(n, stride), torch.randint(v, (n,), dtype=torch.int32)
    logits.data *= 10
    targets[::7] = -100
    seen = cap * torch.tanh(logits / cap) if cap else logits
    want = F.cross_entropy(seen[:, :v], targets.long(), reduction="none")
    want.sum().mul(scale).backward()
    c = make(CrossEntropy, rows=n, vocabulary=v, stride=stride, targets=targets, scale=scale,
             cap=cap)
    losses, got = torch.empty(n), raw(logits).clone()
    ops.cross_entropy(c, losses, got, False)
    near("losses alone", losses, want)
    ops.cross_entropy(c, losses, got, True)
    near("losses", losses, want)
    near("dlogits", got, logits.grad, 1e-6)
    weights, got = torch.randn(n), raw(logits).clone()
    c = make(CrossEntropy, rows=n, vocabulary=v, stride=stride, targets=targets, scale=scale,
             cap=cap, weights=weights)
    ops.cross_entropy(c, losses, got, True)
    near("losses of rows with weights", losses, want)
    near("dlogits of rows with weights", got, logits.grad * weights[:, None], 1e-6)


def adamw(ops, decoupled, model_type):
    n, lr, betas, eps, decay = 3000, 1e-2, (0.9, 0.95), 1e-8, 0.1
    p = torch.nn.Parameter(torch.randn(n))
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind([p], lr=lr, betas=betas, eps=eps, weight_decay=decay)
    master, m, v, params = raw(p).clone(), torch.zeros(n), torch.zeros(n), torch.empty(n)
    for step in range(1, 6):
        p.grad = torch.randn(n)
        a = make(AdamW, beta1=betas[0], beta2=betas[1], eps=eps, bias1=1 - betas[0] ** step,
                 bias2=1 - betas[1] ** step, grad_scale=0.25, decoupled=decoupled, model_type=model_type)
        grads = p.grad * 4
        part = make(AdamWPart, count=n, master=master, exp_avg=m, exp_avg_sq=v, params=params, grads=grads,
                    lr=lr, weight_decay=decay)
        ops.adamw(a, 1, part)
        optimizer.step()
    near("master", master, p, 2e-6)
    assert torch.equal(params, master.to(TORCH[model_type]).float()), "params are not rounded so"
    total = ctypes.c_double()
    ops.sum_squares(F32, 1, ctypes.addressof(total), make(SquaresPart, count=n, x=master))
    assert abs(total.value - master.double().pow(2).sum().item()) < 1e-9 * total.value


def casts(ops):
    every = torch.arange(-32768, 32768, dtype=torch.int16)
    wide = torch.cat((every.view(torch.float16).float(), every.view(torch.bfloat16).float(),
                      torch.randn(50000), torch.randn(50000) * 1e5, torch.randn(50000) * 1e-6))
    for kind in (F32, BF16, F16):
        x = wide.to(TORCH[kind])
        for to in (F32, BF16, F16, F64):
            got = torch.empty(len(x), dtype=TORCH[to])
            ops.cast(len(x), got, to, x, kind)
            same(f"cast from {TORCH[kind]} to {TORCH[to]}", got, x.to(TORCH[to]))
        left = wide.clone()
        ops.round_to(len(left), left, kind)
        same(f"rounded to {TORCH[kind]}", left, wide.to(TORCH[kind]).float())


def same(what, got, wanted):
    equal = (got == wanted) | (got.isnan() & wanted.isnan())
    assert equal.all(), f"{what}: {got[~equal][:4]}, wanted {wanted[~equal][:4]}"


TESTS = {
    "embedding": lambda o: embedding(o, placed=False),
    "embedding of rows with places": lambda o: embedding(o, placed=True),
    "LayerNorm": lambda o: norm(o, True),
    "RMSNorm": lambda o: norm(o, False),
    "RMSNorm of 1 + weight": lambda o: norm(o, False, 1.0),
    "norm of heads": lambda o: [head_norm(o, plus) for plus in (0.0, 1.0)],
    "rotary positions": rope,
    "linear as Conv1D": lambda o: [linear(o, 0, biased) for biased in (True, False)],
    "linear as nn.Linear": lambda o: [linear(o, 1, biased) for biased in (True, False)],
    "magnitudes": lambda o: [magnitude(o, layout, dropped) for layout in (0, 1) for dropped in (True, False)],
    "attention": lambda o: [attention(o, 2, t, 3, 3, 16) for t in (1, 5, 70, 257)],
    "attention with shared heads": lambda o: [attention(o, 2, 70, 6, kv, 10) for kv in (1, 2, 3)],
    "attention with a scale and a cap": lambda o: [attention(o, 2, 70, 4, 2, 16, scale, cap)
                                                   for scale, cap in ((0.5, 0.0), (0.0, 3.0), (0.4, 50.0))],
    "activations": activations,
    "cross entropy": cross_entropy,
    "cross entropy of capped logits": lambda o: cross_entropy(o, 30.0),
    "AdamW": lambda o: [adamw(o, True, kind) for kind in (F32, BF16, F16)],
    "Adam": lambda o: adamw(o, False, F32),
    "casts": casts,
}


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ops_open.restype = library.ops_stream.restype = P
    library.ops_table.restype = ctypes.POINTER(Table)
    library.ops_table.argtypes, library.ops_stream.argtypes = [P, ctypes.c_char_p], [P]
    device = library.ops_open(2, None)
    assert device, "the CPU does not open"
    tables = [library.ops_table(device, name).contents for name in (b"reference", b"fast")]
    print(f"1..{len(TESTS) * len(tables)}")
    number, failed = 0, 0
    for table in tables:
        ops = Ops(table, library.ops_stream(device))
        for name, test in TESTS.items():
            torch.manual_seed(1)
            number, fault = number + 1, None
            try:
                test(ops)
            except AssertionError as error:
                fault = error
                print(f"# {error}")
            failed += fault is not None
            print("not ok" if fault else "ok", number, "-", name, "by", table.name.decode())
    sys.exit(failed > 0)


main()
