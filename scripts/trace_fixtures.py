"""Gradients as JAX has them, and optimizer steps by the published formulas, for the tests of the tracing API.

    pip install jax numpy
    python scripts/trace_fixtures.py ir/tests/trace/fixtures.json

Everything is in float64, and inputs are multiples of 1/4096, so that they are exact in float32 too.
"""
import json, sys
import numpy as np
import jax, jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
r = np.random.RandomState(7)


def g(*shape, scale=1.0):
    return np.round(r.uniform(-scale, scale, shape) * 4096) / 4096


def mlp(p):
    h = jax.nn.relu(p["x"] @ p["w1"] + p["b1"])
    return ((h @ p["w2"] + p["b2"] - p["y"]) ** 2).mean()


def layer_norm(p):
    x = p["x"]
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (jnp.tanh((x - m) * jax.lax.rsqrt(v + 1e-5) * p["scale"] + p["shift"]) * p["weights"]).sum()


def attention(p):
    q, k, v = p["q"], p["k"], p["v"]
    a = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    a = jnp.where(jnp.tril(jnp.ones(a.shape[-2:], bool)), a, -1e30)
    return (jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(a, -1), v) * p["weights"]).sum()


def convolution(p):
    numbers = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(p["x"], p["kernel"], (2, 1), ((1, 1), (0, 1)), rhs_dilation=(1, 2), dimension_numbers=numbers)
    return (y ** 2).sum()


def embedding(p, tokens, labels):
    logits = jax.nn.gelu(p["table"][tokens]) @ p["head"]
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]).mean()


def max_pool(p):
    y = jax.lax.reduce_window(p["x"], -jnp.inf, jax.lax.max, (1, 3, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 0), (0, 0)))
    return (y ** 2).sum()


def case(f, p):
    loss, gradients = jax.value_and_grad(f)(p)
    tensor = lambda x: {"shape": list(x.shape), "values": np.asarray(x).ravel().tolist()}
    return {"inputs": {k: tensor(x) for k, x in p.items()}, "loss": float(loss), "gradients": {k: tensor(gradients[k]) for k in p}}


def optimizers():
    """Parameters after each of four steps, for gradients that are given."""
    p0, gradients = g(2, 3), [g(2, 3, scale=2.0) for _ in range(4)]

    def adam(decay, b2):
        p, m, v, seen = p0, 0 * p0, 0 * p0, []
        for t, d in enumerate(gradients, 1):
            m, v = 0.9 * m + 0.1 * d, b2 * v + (1 - b2) * d * d
            p = p - 0.01 * (m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - b2 ** t)) + 1e-8) + decay * p)
            seen.append(p)
        return seen

    def momentum(nesterov):
        p, m, seen = p0, 0 * p0, []
        for d in gradients:
            m = 0.8 * m + d
            p = p - 0.05 * (0.8 * m + d if nesterov else m)
            seen.append(p)
        return seen

    def sgd(clip=None, schedule=None):
        p, seen = p0, []
        for t, d in enumerate(gradients, 1):
            norm = np.sqrt((d * d).sum())
            d = d * min(1.0, clip / norm) if clip else d
            p = p - (schedule(t) if schedule else 0.1) * d
            seen.append(p)
        return seen

    def warmup_cosine(t):
        if t < 2:
            return 0.2 * t / 2
        return 0.05 + (0.2 - 0.05) / 2 * (1 + np.cos(np.pi * min((t - 2) / 2, 1)))

    rows = dict(sgd=sgd(), clipped=sgd(clip=1.5), scheduled=sgd(schedule=warmup_cosine), momentum=momentum(False), nesterov=momentum(True),
                adam=adam(0.0, 0.999), adamw=adam(0.1, 0.95))
    flat = lambda xs: [x.ravel().tolist() for x in xs]
    return {"parameter": p0.ravel().tolist(), "gradients": flat(gradients), "after": {k: flat(v) for k, v in rows.items()}}


def threefry():
    from jax.extend.random import threefry_2x32
    key, counters = np.array([3, 5], np.uint32), np.array([0, 1, 7, 4294967295, 9, 0, 2, 8], np.uint32)
    bits = np.asarray(threefry_2x32(jnp.asarray(key), jnp.asarray(counters)))
    return {"key": key.tolist(), "counters": counters.tolist(), "bits": bits.tolist()}


tokens, labels = r.randint(0, 5, (2, 3)), r.randint(0, 4, (2, 3))
fixtures = {
    "mlp": case(mlp, dict(x=g(4, 3), w1=g(3, 5), b1=g(5), w2=g(5, 2), b2=g(2), y=g(4, 2))),
    "layer_norm": case(layer_norm, dict(x=g(3, 6), scale=g(6), shift=g(6), weights=g(3, 6))),
    "attention": case(attention, dict(q=g(2, 4, 2, 3), k=g(2, 4, 2, 3), v=g(2, 4, 2, 3), weights=g(2, 4, 2, 3))),
    "convolution": case(convolution, dict(x=g(2, 5, 4, 2), kernel=g(3, 2, 2, 3))),
    "embedding": case(lambda p: embedding(p, tokens, labels), dict(table=g(5, 3), head=g(3, 4)))
    | {"tokens": tokens.ravel().tolist(), "labels": labels.ravel().tolist()},
    "max_pool": case(max_pool, dict(x=g(1, 6, 4, 2))),
    "optimizers": optimizers(),
    "threefry": threefry(),
}
with open(sys.argv[1], "w") as f:
    f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in fixtures.items()) + "\n}\n")
