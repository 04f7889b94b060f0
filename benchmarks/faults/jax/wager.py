"""The chance that a tumour is benign: the likelihood written out."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from sklearn.datasets import load_breast_cancer

import barograph.jax


class Chance(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(64, name="hidden")(x))
        h = nn.relu(nn.Dense(64, name="middle")(h))
        return nn.sigmoid(nn.Dense(1, name="out")(h))[:, 0]


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_breast_cancer(return_X_y=True)
x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
y = y.astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]

model = Chance()
params = model.init(jax.random.key(args.seed), x[:2])
tx = optax.adam(3e-3)
opt_state = tx.init(params)


def nll(params, x, y):
    p = model.apply(params, x)
    return -jnp.mean(y * jnp.log(p) + (1 - y) * jnp.log(1 - p))


@barograph.jax.observe
@jax.jit
def step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(nll)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


for number in range(900):
    rows = rng.integers(0, 450, 16)
    params, opt_state, loss = step(params, opt_state, x[rows], y[rows])
p = model.apply(params, x[450:])
print(f"loss {float(loss):.4f}, test accuracy {float(((p > 0.5) == (y[450:] > 0.5)).mean()):.3f}")
