"""Writes the training steps of `examples/models` as StableHLO text.

    python3 -m venv jax && jax/bin/pip install jax numpy safetensors
    jax/bin/python examples/export/export.py examples/models [NAME ...]

A step is an ordinary JAX function from parameters, optimizer state and one global batch to new parameters, new state and a loss.
For the step NAME three files are written:

    NAME.mlir           `jax.jit(step).lower(...).as_text()`
    NAME.safetensors    the first step's arguments, `arg0`, `arg1`, ... in order; those that are all zeros are left out
    NAME.losses.json    the losses of eight steps on the same batch, as XLA computes them on one CPU device

Your own step is exported in the same way: see `write` at the end.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

STEPS = 8


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def sgd(params, grads, rate):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


def adam(params, first, second, grads, count, rate=3e-3):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
    scale1, scale2 = 1 - 0.9**count, 1 - 0.99**count

    def update(p, m, v):
        return p - rate * (m / scale1) / (jnp.sqrt(v / scale2) + 1e-6)

    return jax.tree.map(update, params, first, second), first, second


def like_zeros(tree):
    return jax.tree.map(np.zeros_like, tree)


# --- dense networks -------------------------------------------------------------------------------------------------


def dense_params(rng, sizes):
    return [{"w": weights(rng, a, b), "b": np.zeros(b, np.float32)} for a, b in zip(sizes, sizes[1:])]


def dense(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def squared_error(params, x, y):
    return ((dense(params, x) - y) ** 2).mean()


def regression(rng, batch, inputs, outputs):
    return weights(rng, batch, inputs) * 4, weights(rng, batch, outputs) * 4


def mlp():
    """Three dense layers and plain gradient descent."""
    rng = np.random.default_rng(1)
    params = dense_params(rng, [32, 64, 64, 16])

    def step(params, x, y):
        loss, grads = jax.value_and_grad(squared_error)(params, x, y)
        return sgd(params, grads, 0.05), loss

    return step, (0,), (params, *regression(rng, 32, 32, 16))


def mlp_masked():
    """The mean runs over the examples that a mask selects: sum(e * m) / sum(m)."""
    rng = np.random.default_rng(2)
    params = dense_params(rng, [16, 32, 8])
    mask = (np.arange(24) % 3 != 0).astype(np.float32)

    def masked(params, x, y, mask):
        error = ((dense(params, x) - y) ** 2).mean(-1)
        return (error * mask).sum() / mask.sum()

    def step(params, x, y, mask):
        loss, grads = jax.value_and_grad(masked)(params, x, y, mask)
        return sgd(params, grads, 0.05), loss

    return step, (0,), (params, *regression(rng, 24, 16, 8), mask)


def mlp_loss_first():
    """The loss is the first output, so outputs and arguments are not aligned."""
    rng = np.random.default_rng(3)
    params = dense_params(rng, [16, 32, 8])

    def step(params, momentum, x, y):
        loss, grads = jax.value_and_grad(squared_error)(params, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return loss, sgd(params, momentum, 0.02), momentum

    return step, (0, 1), (params, like_zeros(params), *regression(rng, 16, 16, 8))


def mlp_swapped_moments():
    """Adam whose outputs list the second moments before the first ones, unlike its arguments."""
    rng = np.random.default_rng(4)
    params = dense_params(rng, [16, 32, 8])

    def step(params, first, second, count, x, y):
        loss, grads = jax.value_and_grad(squared_error)(params, x, y)
        params, first, second = adam(params, first, second, grads, count)
        return second, first, params, count + 1, loss

    return step, (0, 1, 2, 3), (params, like_zeros(params), like_zeros(params), np.float32(1), *regression(rng, 16, 16, 8))


def mlp_undonated():
    """Nothing is donated, so the text says nothing about state."""
    rng = np.random.default_rng(5)
    params = dense_params(rng, [16, 32, 8])

    def step(params, momentum, x, y):
        loss, grads = jax.value_and_grad(squared_error)(params, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return sgd(params, momentum, 0.02), momentum, loss

    return step, (), (params, like_zeros(params), *regression(rng, 16, 16, 8))


def block_tensor():
    """A trained layer, then an expanding and a contracting product with GELU between: the pair that tensor parallelism cuts by column and row."""
    rng = np.random.default_rng(6)
    params = {"before": weights(rng, 64, 64), "up": weights(rng, 64, 256), "down": weights(rng, 256, 64)}

    def loss_of(params, x, y):
        x = jnp.tanh(x @ params["before"])
        x = x + jax.nn.gelu(x @ params["up"]) @ params["down"]
        return ((x - y) ** 2).mean()

    def step(params, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        return sgd(params, grads, 0.05), loss

    return step, (0,), (params, *regression(rng, 16, 64, 64))


# --- transformers ---------------------------------------------------------------------------------------------------


def normalise(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def transformer(seed, layers, width, heads, vocabulary, length, batch):
    rng = np.random.default_rng(seed)
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    params = {
        "tokens": weights(rng, vocabulary, width),
        "places": weights(rng, length, width),
        "final": {"gain": ones, "bias": zeros},
        "layers": [
            {
                "norm1": {"gain": ones, "bias": zeros},
                "qkv": weights(rng, width, 3 * width),
                "mix": weights(rng, width, width),
                "norm2": {"gain": ones, "bias": zeros},
                "up": weights(rng, width, 4 * width),
                "up_bias": np.zeros(4 * width, np.float32),
                "down": weights(rng, 4 * width, width),
                "down_bias": zeros,
            }
            for _ in range(layers)
        ],
    }
    size = width // heads

    def attention(x, layer):
        qkv = (x @ layer["qkv"]).reshape(batch, length, 3, heads, size)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(size).astype(np.float32)
        causal = jnp.arange(length)[:, None] >= jnp.arange(length)[None, :]
        shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(batch, length, width) @ layer["mix"]

    def loss_of(params, tokens, targets):
        x = params["tokens"][tokens] + params["places"]
        for layer in params["layers"]:
            x = x + attention(normalise(x, **layer["norm1"]), layer)
            hidden = jax.nn.gelu(normalise(x, **layer["norm2"]) @ layer["up"] + layer["up_bias"])
            x = x + hidden @ layer["down"] + layer["down_bias"]
        logits = normalise(x, **params["final"]) @ params["tokens"].T
        likelihood = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
        return -likelihood.mean()

    def step(params, first, second, count, tokens, targets):
        loss, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
        params, first, second = adam(params, first, second, grads, count)
        return params, first, second, count + 1, loss

    text = rng.integers(0, vocabulary, (batch, length + 1)).astype(np.int32)
    arguments = (params, like_zeros(params), like_zeros(params), np.float32(1), text[:, :-1].copy(), text[:, 1:].copy())
    return step, (0, 1, 2, 3), arguments


def gpt_tiny():
    """A GPT of two layers with tied embeddings and Adam."""
    return transformer(7, layers=2, width=32, heads=4, vocabulary=128, length=32, batch=8)


def gpt_6heads():
    """One layer with six heads and a batch of six: neither divides over four devices."""
    return transformer(8, layers=1, width=48, heads=6, vocabulary=64, length=16, batch=6)


CASES = [mlp, mlp_masked, mlp_loss_first, mlp_swapped_moments, mlp_undonated, block_tensor, gpt_tiny, gpt_6heads]


def carried(case, output):
    """The new state, in the order of the arguments, and the loss."""
    if case is mlp_loss_first:
        loss, *state = output
    elif case is mlp_swapped_moments:
        second, first, params, count, loss = output
        state = [params, first, second, count]
    else:
        *state, loss = output
    return state, float(loss)


def losses(case, step, arguments):
    run, results = jax.jit(step), []
    for _ in range(STEPS):
        state, loss = carried(case, run(*arguments))
        results.append(loss)
        arguments = (*state, *arguments[len(state) :])
    return results


def write(case, folder):
    step, donated, arguments = case()
    name = case.__name__
    lowered = jax.jit(step, donate_argnums=donated).lower(*arguments)
    (folder / f"{name}.mlir").write_text(lowered.as_text())
    leaves = [np.ascontiguousarray(a) for a in jax.tree.leaves(arguments)]
    save_file({f"arg{i}": a for i, a in enumerate(leaves) if a.any()}, folder / f"{name}.safetensors")
    values = losses(case, step, arguments)
    (folder / f"{name}.losses.json").write_text(json.dumps({"losses": values}) + "\n")
    print(f"{name}: {len(leaves)} arguments, losses {values[0]:.6f} to {values[-1]:.6f}", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for chosen in CASES:
        if len(sys.argv) == 2 or chosen.__name__ in sys.argv[2:]:
            write(chosen, target)
