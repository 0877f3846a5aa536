#!/usr/bin/env python3
"""Times a training step of GPT-2 in JAX, to be set beside ours: `gpu.sh` runs it where JAX is installed.

The step is the one that `compile --config examples/configs/gpt2_124m.json --optimizer adam` traces: tied embedding, mean cross-entropy, Adam, parameters
and moments in f32; with bf16 the products and activations are bf16. Prints one JSON object: seconds of every step, their median, the last loss.

    pip install 'jax[cuda12]'
    scripts/gpu_jax.py --precision bf16
"""
import argparse
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--warmup", type=int, default=3)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--vocabulary", type=int, default=50257)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--sequence", type=int, default=1024)
args = parser.parse_args()

L, H, A, V, B, S = args.layers, args.hidden, args.heads, args.vocabulary, args.batch, args.sequence
kind = jnp.bfloat16 if args.precision == "bf16" else jnp.float32
jax.config.update("jax_default_matmul_precision", "highest" if args.precision == "f32" else "tensorfloat32")
# cuDNN's fused attention takes 16-bit types; XLA's own is the best there is for f32.
attention = "cudnn" if args.precision == "bf16" and jax.default_backend() == "gpu" else "xla"

random = np.random.default_rng(1)


def drawn(*shape):
    return jnp.asarray(random.normal(0, 0.02, shape), jnp.float32)


def norm():
    return {"g": jnp.ones(H), "b": jnp.zeros(H)}


def layer():
    return {
        "ln1": norm(), "qkv": drawn(H, 3 * H), "qkv_b": jnp.zeros(3 * H), "proj": drawn(H, H), "proj_b": jnp.zeros(H),
        "ln2": norm(), "fc": drawn(H, 4 * H), "fc_b": jnp.zeros(4 * H), "out": drawn(4 * H, H), "out_b": jnp.zeros(H),
    }


params = {"wte": drawn(V, H), "wpe": drawn(S, H), "lnf": norm(), "h": [layer() for _ in range(L)]}


def normed(x, p):
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) * jax.lax.rsqrt(var + 1e-5) * p["g"] + p["b"]).astype(kind)


def dense(x, w, b):
    return x @ w.astype(kind) + b.astype(kind)


def loss_of(p, tokens, targets):
    x = (p["wte"][tokens] + p["wpe"]).astype(kind)
    for b in p["h"]:
        q, k, v = (u.reshape(B, S, A, H // A) for u in jnp.split(dense(normed(x, b["ln1"]), b["qkv"], b["qkv_b"]), 3, -1))
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=attention)
        x = x + dense(a.reshape(B, S, H), b["proj"], b["proj_b"])
        x = x + dense(jax.nn.gelu(dense(normed(x, b["ln2"]), b["fc"], b["fc_b"])), b["out"], b["out_b"])
    logits = (normed(x, p["lnf"]) @ p["wte"].T.astype(kind)).astype(jnp.float32)
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]).mean()


def step(p, m, v, i, tokens, targets):
    loss, g = jax.value_and_grad(loss_of)(p, tokens, targets)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    update = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**i)) / (jnp.sqrt(v / (1 - 0.999**i)) + 1e-8)
    return jax.tree.map(update, p, m, v), m, v, i + 1, loss


step = jax.jit(step, donate_argnums=(0, 1, 2, 3))
text = jnp.asarray(random.integers(0, V, (B, S + 1)), jnp.int32)
tokens, targets = text[:, :-1], text[:, 1:]
m, v, i = jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.float32(1)
seconds, loss = [], None
for n in range(args.warmup + args.steps):
    begun = time.perf_counter()
    params, m, v, i, loss = step(params, m, v, i, tokens, targets)
    loss = float(loss)  # Waits for the step.
    if n >= args.warmup:
        seconds.append(time.perf_counter() - begun)

print(json.dumps({
    "framework": "jax", "version": jax.__version__, "device": jax.devices()[0].device_kind, "precision": args.precision, "attention": attention,
    "batch": B, "sequence": S, "median": statistics.median(seconds), "seconds": seconds, "loss": loss,
}))
