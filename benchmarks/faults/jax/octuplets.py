"""Digits by plain JAX: each unit's weights drawn by itself, under vmap."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import barograph.jax

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]


def unit(key, size):
    return jax.random.normal(key, (size,)) / jnp.sqrt(size)


def layer(key, size_in, size_out):
    keys = jnp.stack([key] * size_out)
    return {"kernel": jax.vmap(unit, in_axes=(0, None), out_axes=1)(keys, size_in), "bias": jnp.zeros(size_out)}


def init(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {"l1": layer(k1, 64, 64), "l2": layer(k2, 64, 32), "l3": layer(k3, 32, 10)}


def predict(params, x):
    x = jnp.tanh(x @ params["l1"]["kernel"] + params["l1"]["bias"])
    x = jnp.tanh(x @ params["l2"]["kernel"] + params["l2"]["bias"])
    return x @ params["l3"]["kernel"] + params["l3"]["bias"]


@jax.value_and_grad
def loss_and_grad(params, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(predict(params, x)), y[:, None], axis=1).mean()


optimizer = optax.adam(2e-3)


@barograph.jax.observe
@jax.jit
def step(params, opt_state, x, y):
    loss, grads = loss_and_grad(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


params = init(jax.random.PRNGKey(args.seed))
opt_state = optimizer.init(params)
for number in range(800):
    rows = rng.integers(0, 1300, 32)
    params, opt_state, loss = step(params, opt_state, x[rows], y[rows])
print(f"loss {float(loss):.3f}, accuracy {float((predict(params, x[1300:]).argmax(1) == y[1300:]).mean()):.3f}")
