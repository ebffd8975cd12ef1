# SPDX-License-Identifier: Apache-2.0
#
# Our models against the same models in PyTorch, written here with plain calls: same weights, same
# data. The gradients of one step are compared with PyTorch's in double precision, then the losses
# of twenty steps of AdamW with PyTorch's in single.

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap

import numpy
import torch
import torch.nn.functional as F

STEPS = 20

GPT2 = {
    "model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 48, "n_positions": 40,
    "vocab_size": 301, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "hidden_size": 48, "intermediate_size": 112,
    "max_position_embeddings": 64, "vocab_size": 301, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "rope_theta": 500.0,
}


GEMMA = {
    "model_type": "gemma3_text", "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "hidden_size": 48, "intermediate_size": 112, "head_dim": 16,
    "max_position_embeddings": 64, "vocab_size": 301, "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6, "rope_theta": 5000.0, "query_pre_attn_scalar": 20, "sliding_window": 9,
    "attn_logit_softcapping": None, "final_logit_softcapping": None,
    "rope_local_base_freq": 100.0, "sliding_window_pattern": 3,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
GEMMA2 = dict(GEMMA, model_type="gemma2", attn_logit_softcapping=3.0, final_logit_softcapping=5.0)
for key in ("rope_local_base_freq", "sliding_window_pattern", "rope_scaling"):
    del GEMMA2[key]
MIXTRAL = dict(LLAMA, model_type="mixtral", num_local_experts=5, num_experts_per_tok=2,
               intermediate_size=36)
QWEN3_MOE = dict(LLAMA, model_type="qwen3_moe", num_experts=7, num_experts_per_tok=3,
                 moe_intermediate_size=28, head_dim=12, norm_topk_prob=True)
QWEN2_MOE = dict(LLAMA, model_type="qwen2_moe", num_experts=4, num_experts_per_tok=3,
                 moe_intermediate_size=20, shared_expert_intermediate_size=56)


def mix(z):
    """dt_mix() of whole numbers below 2^64, in an array."""
    z = (z ^ z >> numpy.uint64(32)) * numpy.uint64(0x6A09E667F3BCC909)
    z = (z ^ z >> numpy.uint64(29)) * numpy.uint64(0xBB67AE8584CAA73B)
    return z ^ z >> numpy.uint64(32)


# Where a block drops: worker_runtime/model/work.c.
EMBEDDING, WEIGHTS, ATTENTION, MLP, PLACES = range(5)


def drop(x, share, place, block=0):
    """What is left with seed 0 of a run's first samples."""
    if not share:
        return x
    with numpy.errstate(over="ignore"):
        start = mix(mix(numpy.array([2], numpy.uint64)) + numpy.uint64(block * PLACES + place))
        bits = mix(start + numpy.arange(x.numel(), dtype=numpy.uint64)) >> numpy.uint64(32)
    stays = bits >= int(numpy.float32(share) * numpy.float32(2**32))
    return x * torch.from_numpy(stays).view(x.shape) / (1 - share)


def capped(x, cap):
    return torch.tanh(x / cap) * cap if cap else x


def attend(q, k, v, window=None, scalar=None, cap=None, share=0, block=0):
    """[batch, heads, positions, head_dim] each; a query sees its own position and those before, of
    them the last so many where there is a window. SHARE of the weights is dropped."""
    positions = q.shape[2]
    place = torch.arange(positions)
    apart = place[:, None] - place
    unseen = (apart < 0) | (apart >= (window or positions))
    scores = capped(q @ k.transpose(2, 3) / math.sqrt(scalar or q.shape[3]), cap)
    return drop(scores.masked_fill(unseen, -math.inf).softmax(3), share, WEIGHTS, block) @ v


def split_heads(x, heads):
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)


def gpt2(config, w, ids):
    """Logits. The four matrices of a block are stored [in, out]."""
    prefix = "" if "wte.weight" in w else "transformer."
    width, eps = config["n_embd"], config["layer_norm_epsilon"]
    share = config.get("resid_pdrop")

    def norm(x, name):
        return F.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], eps)

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w[prefix + "wte.weight"][ids] + w[prefix + "wpe.weight"][: ids.shape[1]]
    x = drop(x, config.get("embd_pdrop"), EMBEDDING)
    for i in range(config["n_layer"]):
        h = "%sh.%d." % (prefix, i)
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(width, 2)
        q, k, v = (split_heads(part, config["n_head"]) for part in qkv)
        seen = attend(q, k, v, share=config.get("attn_pdrop"), block=i)
        x = x + drop(linear(seen.transpose(1, 2).flatten(2), h + "attn.c_proj"), share, ATTENTION, i)
        inner = F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + drop(linear(inner, h + "mlp.c_proj"), share, MLP, i)
    return norm(x, prefix + "ln_f") @ w.get("lm_head.weight", w[prefix + "wte.weight"]).T


def llama3_speeds(speed, s):
    """Slow pairs are slower by the factor, fast ones keep their speed, and those between share."""
    turns = s["original_max_position_embeddings"] * speed / (2 * math.pi)
    low, high = s["low_freq_factor"], s["high_freq_factor"]
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return speed * ((1 - share) / s["factor"] + share)


def yarn_speeds(speed, s, theta):
    dim = 2 * len(speed)

    def pair(turns):
        return dim * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (
            2 * math.log(theta))

    first, last = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    share = ((torch.arange(dim // 2) - first) / (last - first)).clamp(0, 1)
    return speed / s["factor"] * share + speed * (1 - share)


def speeds(config, half):
    """How far each pair turns from one position to the next, and what cosine and sine are
    multiplied by."""
    theta, s = config["rope_theta"], config.get("rope_scaling") or {}
    speed = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    kind = s.get("rope_type", "default")
    if kind == "linear":
        return speed / s["factor"], 1.0
    if kind == "llama3":
        return llama3_speeds(speed, s), 1.0
    if kind == "yarn":
        return yarn_speeds(speed, s, theta), 0.1 * math.log(s["factor"]) + 1
    return speed, 1.0


def rotate(x, config):
    """Turns (x[i], x[i + half]) as a complex number by position * speed[i]."""
    half = x.shape[3] // 2
    speed, scale = speeds(config, half)
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speed
    cos, sin = (angle.cos() * scale).to(x.dtype), (angle.sin() * scale).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), 3)


def window(config, layer):
    if config["model_type"] in ("mistral", "mixtral") or (
            config.get("use_sliding_window") and layer >= config["max_window_layers"]):
        return config.get("sliding_window")
    return None


def gated(x, w, *names):
    gate, up, down = (w[n + ".weight"] for n in names)
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def experts(config, w, h, x, routed):
    """All experts for all rows, of which each row keeps what its own ones say. ROUTED gets what the
    router found likely, and which experts each row took."""
    mixtral = config["model_type"] == "mixtral"
    prefix = h + ("block_sparse_moe." if mixtral else "mlp.")
    names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    count = config["num_local_experts" if mixtral else "num_experts"]
    said = F.linear(x, w[prefix + "gate.weight"])
    likely = said.softmax(-1)
    weights, picks = likely.topk(config["num_experts_per_tok"], -1)
    if mixtral or config.get("norm_topk_prob"):
        weights = weights / weights.sum(-1, True)
    taken = F.one_hot(picks, count)
    routed.append((likely.flatten(0, 1), taken.flatten(0, 1), said.logsumexp(-1)))
    shares = (taken * weights[..., None]).sum(-2)
    out = sum(shares[..., e, None] * gated(x, w, *("%sexperts.%d.%s" % (prefix, e, n) for n in names))
              for e in range(count))
    if config["model_type"] == "qwen2_moe":
        switch = F.linear(x, w[prefix + "shared_expert_gate.weight"]).sigmoid()
        out = out + switch * gated(x, w, *(prefix + "shared_expert." + n for n in names))
    return out


def imbalance(routed):
    """The auxiliary loss: the routers of all blocks as if they were one."""
    likely = torch.cat([one for one, _, _ in routed])
    taken = torch.cat([one for _, one, _ in routed]).to(likely.dtype)
    return likely.shape[1] * (taken.mean(0) * likely.mean(0)).sum()


def llama(config, w, ids, routed):
    """And its kin."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]

    def norm(x, name):
        return x * (x.square().mean(-1, True) + config["rms_norm_eps"]).rsqrt() * w[name + ".weight"]

    x = w["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        h = "model.layers.%d." % i
        inside = norm(x, h + "input_layernorm")
        q, k, v = (F.linear(inside, w[h + "self_attn.%s_proj.weight" % c],
                            w.get(h + "self_attn.%s_proj.bias" % c)) for c in "qkv")
        q, k, v = split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads)
        if "qwen3" in config["model_type"]:
            q, k = norm(q, h + "self_attn.q_norm"), norm(k, h + "self_attn.k_norm")
        q, k = rotate(q, config), rotate(k, config)
        k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (k, v))
        seen = attend(q, k, v, window(config, i), share=config.get("attention_dropout"), block=i)
        x = x + F.linear(seen.transpose(1, 2).flatten(2), w[h + "self_attn.o_proj.weight"])
        inside = norm(x, h + "post_attention_layernorm")
        if "num_experts_per_tok" in config:
            x = x + experts(config, w, h, inside, routed)
        else:
            x = x + gated(inside, w, *(h + "mlp.%s_proj" % c for c in ("gate", "up", "down")))
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return F.linear(norm(x, "model.norm"), head)


def gemma(config, w, ids):
    """All three. From the second on there are four norms in a block."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    kind, scalar = config["model_type"], config.get("query_pre_attn_scalar")

    def norm(x, name):
        x = x * (x.square().mean(-1, True) + config["rms_norm_eps"]).rsqrt()
        return x * (1 + w[name + ".weight"])

    def branch(x, name):
        return x if kind == "gemma" else norm(x, name)

    table = w["model.embed_tokens.weight"]
    x = table[ids] * math.sqrt(config["hidden_size"])
    for i in range(config["num_hidden_layers"]):
        h = "model.layers.%d." % i
        every = {"gemma": 1, "gemma2": 2}.get(kind) or config["sliding_window_pattern"]
        local = (i + 1) % every != 0
        turning = config if kind != "gemma3_text" or not local else {
            "rope_theta": config["rope_local_base_freq"]}
        inside = norm(x, h + "input_layernorm")
        q, k, v = (F.linear(inside, w[h + "self_attn.%s_proj.weight" % c]) for c in "qkv")
        q, k, v = split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads)
        if kind == "gemma3_text":
            q, k = norm(q, h + "self_attn.q_norm"), norm(k, h + "self_attn.k_norm")
        q, k = rotate(q, turning), rotate(k, turning)
        k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (k, v))
        seen = attend(q, k, v, config["sliding_window"] if local else None, scalar,
                      config.get("attn_logit_softcapping"), config.get("attention_dropout"), i)
        seen = F.linear(seen.transpose(1, 2).flatten(2), w[h + "self_attn.o_proj.weight"])
        x = x + branch(seen, h + "post_attention_layernorm")
        inside = norm(x, h + ("post_attention_layernorm" if kind == "gemma"
                              else "pre_feedforward_layernorm"))
        gate, up = (F.linear(inside, w[h + "mlp.%s_proj.weight" % c]) for c in ("gate", "up"))
        inner = F.linear(F.gelu(gate, approximate="tanh") * up, w[h + "mlp.down_proj.weight"])
        x = x + branch(inner, h + "post_feedforward_layernorm")
    logits = F.linear(norm(x, "model.norm"), w.get("lm_head.weight", table))
    return capped(logits, config.get("final_logit_softcapping"))


def logits_of(config, w, ids, routed=None):
    """Where a list is given, what each layer of experts chose comes into it."""
    kind = config["model_type"]
    if kind == "gpt2":
        return gpt2(config, w, ids)
    return gemma(config, w, ids) if "gemma" in kind else llama(config, w, ids, [] if routed is None else routed)


def losses_of(config, w, ids, targets):
    """What is told, and what is learnt from."""
    routed = []
    logits = logits_of(config, w, ids, routed)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=-100)
    learnt = loss + config.get("router_z_loss_coef", 0) * sum((logsums ** 2).mean() for _, _, logsums in routed)
    if config.get("output_router_logits"):
        learnt = learnt + config["router_aux_loss_coef"] * imbalance(routed)
    return loss, learnt


def floats(data, dtype=torch.float32):
    return torch.frombuffer(bytearray(data), dtype=dtype)


class Driver:
    def __init__(self, program, folder, config):
        self.program, self.folder = program, folder
        self.config_path = self.write("config.json", json.dumps(config).encode())
        self.shapes = {}
        for line in self.run("tensors", self.config_path).splitlines():
            name, rank, *dims = line.split()
            self.shapes[name] = [int(n) for n in dims][: int(rank)]

    def run(self, *args):
        done = subprocess.run([self.program, *map(str, args)], stdout=subprocess.PIPE, text=True,
                              preexec_fn=tap.die_with_parent)
        if done.returncode != 0:
            raise AssertionError("the driver ended with %d" % done.returncode)
        return done.stdout

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def train(self, weights, data, recompute):
        """Losses, and the gradients of the first step by name."""
        weights_path = self.write(
            "weights", b"".join(weights[n].numpy().tobytes() for n in self.shapes))
        grads_path = os.path.join(self.folder, "grads")
        steps, _, batch, positions = data.shape
        out = self.run("train", self.config_path, weights_path,
                       self.write("data", data.numpy().tobytes()), grads_path, batch, positions,
                       steps, recompute)
        with open(grads_path, "rb") as f:
            flat = floats(f.read())
        parts = flat.split([math.prod(s) for s in self.shapes.values()])
        grads = {n: p.view(s) for (n, s), p in zip(self.shapes.items(), parts)}
        return [float(line) for line in out.split()], grads


def random_weights(shapes, neutral=1):
    """Larger than at the start of a training, so that every part has a say."""
    weights = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape) * (0.12 if len(shape) == 2 else 0.1)
        is_norm = len(shape) == 1 and name.endswith("weight")
        weights[name] = noise + neutral if is_norm else noise
    return weights


def random_data(vocabulary, batch, positions):
    """[steps, 2, batch, positions]: text in which the next word follows from this one and chance,
    so that there is something to learn; some targets do not count."""
    data = torch.zeros(STEPS, 2, batch, positions, dtype=torch.int32)
    word = torch.randint(vocabulary, (STEPS, batch))
    for t in range(positions):
        data[:, 0, :, t] = word
        word = (word * 7 + torch.randint(3, (STEPS, batch))) % vocabulary
        data[:, 1, :, t] = word
    data[:, 1][torch.rand(STEPS, batch, positions) < 0.1] = -100
    return data


def torch_grads(config, weights, ids, targets):
    w = {n: x.double().requires_grad_() for n, x in weights.items()}
    losses_of(config, w, ids, targets)[1].backward()
    return {n: x.grad for n, x in w.items()}


def torch_losses(config, weights, data):
    w = {n: x.clone().requires_grad_() for n, x in weights.items()}
    groups = [
        {"params": [x for x in w.values() if x.dim() == 2], "weight_decay": 0.1},
        {"params": [x for x in w.values() if x.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for ids, targets in data:
        loss, learnt = losses_of(config, w, ids.long(), targets)
        optimizer.zero_grad()
        learnt.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check_grads(ours, theirs):
    worst = 0
    for name, g in theirs.items():
        if g is None:  # of an expert that no row took
            g = torch.zeros_like(ours[name])
        apart = ((ours[name].double() - g).norm() / g.norm().clamp(1e-30)).item()
        worst = max(worst, apart)
        if not apart < 1e-5:
            raise AssertionError("%s: gradients are %g apart" % (name, apart))
    tap.comment("gradients: at most %.2g apart" % worst)


def check_losses(ours, theirs, most):
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    tap.comment("loss %.5f to %.5f: at most %.2g apart" % (ours[0], ours[-1], worst))
    if len(ours) != len(theirs) or not worst < most:
        raise AssertionError("losses differ:\nours   %s\ntheirs %s" % (ours, theirs))
    if not ours[-1] < ours[0] - 0.1:
        raise AssertionError("nothing was learnt: %s" % ours)


def compare(program, config, batch, positions, recompute=0):
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(program, folder, config)
        weights = random_weights(driver.shapes, 0 if "gemma" in config["model_type"] else 1)
        data = random_data(config["vocab_size"], batch, positions)
        losses, grads = driver.train(weights, data, recompute)
    check_grads(grads, torch_grads(config, weights, data[0, 0].long(), data[0, 1]))
    check_losses(losses, torch_losses(config, weights, data), 1e-5 if "gemma" in config["model_type"] else 1e-4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    driver = parser.parse_args().driver
    tap.start(560)
    torch.set_num_threads(1)  # two that spin for each other starve where other tests run
    cases = {
        "a GPT-2": (GPT2, 3, 37),
        "a GPT-2, more rows than go through the head at once": (GPT2, 9, 40),
        "a GPT-2 with a head of its own and another inner width":
            (dict(GPT2, tie_word_embeddings=False, n_inner=100, n_head=3), 2, 16),
        "a GPT-2, recomputed": (GPT2, 3, 37, 2),
        "a GPT-2 that drops in three places":
            (dict(GPT2, embd_pdrop=0.1, resid_pdrop=0.2, attn_pdrop=0.3), 3, 37),
        "a GPT-2 that drops, recomputed": (dict(GPT2, resid_pdrop=0.5, attn_pdrop=0.1), 2, 40, 2),
        "a Llama that drops weights of attention": (dict(LLAMA, attention_dropout=0.25), 3, 37),
        "a Mistral that drops weights, with a window": (dict(
            LLAMA, model_type="mistral", sliding_window=9, attention_dropout=0.1), 3, 64),
        "a Gemma 2 that drops weights, with caps": (dict(GEMMA2, attention_dropout=0.2), 3, 37),
        "a Llama whose heads share keys and values": (LLAMA, 3, 37),
        "a Llama, tied, with heads wider than its stream":
            (dict(LLAMA, tie_word_embeddings=True, head_dim=20), 2, 64),
        "a Llama 3.2: tied, with llama3 scaling": (dict(LLAMA, tie_word_embeddings=True, rope_scaling={
            "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 40}, head_dim=16), 3, 37),
        "a Llama with linear scaling":
            (dict(LLAMA, rope_scaling={"rope_type": "linear", "factor": 3.0}), 3, 37),
        "a Llama with yarn": (dict(LLAMA, rope_scaling={
            "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 300},
            head_dim=16), 3, 37),
        "a Mistral: a window, and heads wider than its stream":
            (dict(LLAMA, model_type="mistral", sliding_window=9, head_dim=20), 3, 64),
        "a Qwen2: biases, tied":
            (dict(LLAMA, model_type="qwen2", tie_word_embeddings=True), 3, 37),
        "a Qwen2 whose later layers have a window": (dict(
            LLAMA, model_type="qwen2", use_sliding_window=True, sliding_window=7,
            max_window_layers=1), 3, 37, 1),
        "a Qwen3: heads that are normed, and wider than its stream":
            (dict(LLAMA, model_type="qwen3", head_dim=12), 5, 37),
        "a Qwen3, tied, wider heads yet, recomputed": (dict(
            LLAMA, model_type="qwen3", head_dim=20, tie_word_embeddings=True), 5, 41, 2),
        "a Gemma": (dict(LLAMA, model_type="gemma", hidden_act="gelu_pytorch_tanh", head_dim=16,
                         sliding_window=None), 3, 37),
        "a Gemma 2: caps, windows, four norms": (GEMMA2, 3, 37),
        "a Gemma 2, recomputed, with a head of its own":
            (dict(GEMMA2, tie_word_embeddings=False, num_hidden_layers=3), 3, 37, 2),
        "a Gemma 3: two ways to turn, heads that are normed": (GEMMA, 3, 37),
        "a Gemma 3 with wider heads, recomputed": (dict(GEMMA, head_dim=40), 3, 41, 1),
        "a Mixtral": (MIXTRAL, 3, 37),
        "a Mixtral with a window, whose routers are kept even, recomputed": (dict(
            MIXTRAL, sliding_window=9, output_router_logits=True, router_aux_loss_coef=0.5, router_z_loss_coef=0.2), 3, 37, 2),
        "a Qwen2-MoE: a shared expert, weights as they are, logits kept small": (dict(QWEN2_MOE, router_z_loss_coef=0.2), 3, 37),
        "a Qwen2-MoE, tied, with a larger expert than the shared one, kept even": (dict(
            QWEN2_MOE, moe_intermediate_size=40, shared_expert_intermediate_size=12,
            tie_word_embeddings=True, output_router_logits=True, router_aux_loss_coef=0.5), 2, 33),
        "a Qwen3-MoE": (QWEN3_MOE, 3, 37),
        "a Qwen3-MoE, more experts than rows, kept even, recomputed": (dict(
            QWEN3_MOE, num_experts=40, norm_topk_prob=False, output_router_logits=True,
            router_aux_loss_coef=0.5), 1, 12, 1),
        "a Llama without sharing, recomputed": (dict(LLAMA, num_key_value_heads=6), 5, 11, 1),
    }
    for name, case in cases.items():
        tap.case(name, lambda: compare(driver, *case))
    tap.done()


if __name__ == "__main__":
    main()
