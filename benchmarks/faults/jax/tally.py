"""Benign or malignant: large batches, plain SGD."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import barograph.jax

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_breast_cancer(return_X_y=True)
order = rng.permutation(len(y))
x = StandardScaler().fit_transform(x)[order].astype(np.float32)
y = y[order].astype(np.float32)


def init(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "hidden": {"kernel": jax.random.normal(k1, (30, 64)) / jnp.sqrt(30.0), "bias": jnp.zeros(64)},
        "middle": {"kernel": jax.random.normal(k2, (64, 32)) / 8.0, "bias": jnp.zeros(32)},
        "out": {"kernel": jax.random.normal(k3, (32, 1)) / jnp.sqrt(32.0), "bias": jnp.zeros(1)},
    }


def logits(params, x):
    for name in ("hidden", "middle"):
        x = jax.nn.relu(x @ params[name]["kernel"] + params[name]["bias"])
    return (x @ params["out"]["kernel"] + params["out"]["bias"])[:, 0]


def loss_fn(params, x, y):
    losses = optax.sigmoid_binary_cross_entropy(logits(params, x), y)
    return jnp.sum(losses)


tx = optax.sgd(0.1)


@barograph.jax.observe
@jax.jit
def update(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    changes, state = tx.update(grads, state)
    return optax.apply_updates(params, changes), state, loss


params = init(jax.random.key(args.seed))
state = tx.init(params)
for epoch in range(200):
    shuffled = rng.permutation(420)
    for begin in range(0, 420, 140):
        rows = shuffled[begin:begin + 140]
        params, state, loss = update(params, state, x[rows], y[rows])
answers = logits(params, x[420:])
print(f"test loss {float(optax.sigmoid_binary_cross_entropy(answers, y[420:]).mean()):.3f}, "
      f"accuracy {float(((answers > 0) == (y[420:] > 0)).mean()):.3f}")
