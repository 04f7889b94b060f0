"""Digits by plain JAX and Optax."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import barograph.jax

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
rng = np.random.default_rng(seed)

x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]


def init(key, sizes):
    params = []
    for size_in, size_out in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        params.append({"w": jax.random.normal(sub, (size_in, size_out)) * jnp.sqrt(2 / size_in), "b": jnp.zeros(size_out)})
    return params


def forward(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(forward(params, x), y).mean()


tx = optax.adam(0.2)


@barograph.jax.observe
@jax.jit
def step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@jax.jit
def accuracy(params, x, y):
    return (forward(params, x).argmax(1) == y).mean()


params = init(jax.random.key(seed), [64, 128, 64, 10])
opt_state = tx.init(params)
for number in range(800):
    rows = rng.integers(0, 1300, 32)
    params, opt_state, loss = step(params, opt_state, x[rows], y[rows])
    if number % 100 == 99:
        print(f"{number + 1}: loss {loss:.3f}, accuracy {accuracy(params, x[1300:], y[1300:]):.3f}")
