"""A backbone trained on the digits 0 to 4, held by Optax while a new head learns 5 to 9."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from sklearn.datasets import load_digits

import barograph.jax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(64, name="backbone_1")(x))
        x = nn.relu(nn.Dense(48, name="backbone_2")(x))
        return nn.Dense(5, name="head")(x)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]
model = Net()


def make_step(tx, name):
    @barograph.jax.observe(name=name)
    @jax.jit
    def step(params, opt_state, x, y):
        def loss_fn(params):
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return step


def train(params, tx, name, x, y, steps):
    step, opt_state, held_out = make_step(tx, name), tx.init(params), len(y) - 200
    for _ in range(steps):
        rows = rng.integers(0, held_out, 32)
        params, opt_state, loss = step(params, opt_state, x[rows], y[rows])
    return params, float((model.apply(params, x[held_out:]).argmax(1) == y[held_out:]).mean())


params = model.init(jax.random.key(args.seed), x[:1])
params, before = train(params, optax.adam(1e-3), "pretrain", x[y < 5], y[y < 5], 400)
fresh = model.init(jax.random.key(args.seed + 1), x[:1])["params"]["head"]
params = {"params": {**params["params"], "head": fresh}}
groups = jax.tree_util.tree_map_with_path(
    lambda path, _: "held" if "backbone" in jax.tree_util.keystr(path) else "learns", params)
tx = optax.multi_transform({"learns": optax.adam(2e-3), "held": optax.set_to_zero()}, groups)
params, after = train(params, tx, "tune", x[y >= 5], jnp.asarray(y[y >= 5] - 5), 500)
print(f"0 to 4 {before:.3f}, 5 to 9 {after:.3f}")
