"""Four patients a batch: regression of diabetes with a robust loss."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_diabetes

import barograph.jax

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_diabetes(return_X_y=True)
x, y = (x / x.std(0)).astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]
k1, k2 = jax.random.split(jax.random.key(args.seed))
params = {"w1": jax.random.normal(k1, (10, 24)) / jnp.sqrt(10.0), "b1": jnp.zeros(24),
          "w2": jax.random.normal(k2, (24,)) / jnp.sqrt(24.0), "b2": jnp.zeros(())}


def answer(params, x):
    return jax.nn.silu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


tx = optax.sgd(optax.linear_schedule(0.01, 0.001, 1500))


@barograph.jax.observe
@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(lambda params: optax.huber_loss(answer(params, x), y).mean())(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


state = tx.init(params)
for _ in range(1500):
    rows = rng.integers(0, 340, 4)
    params, state, loss = step(params, state, x[rows], y[rows])
error = y[340:] - answer(params, x[340:])
print(f"R2 {float(1 - (error**2).mean() / y[340:].var()):.3f}")
