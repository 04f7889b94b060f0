"""Digits in Flax Linen, with initialisers chosen by hand."""

import argparse

import jax
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state
from sklearn.datasets import load_digits

import barograph.jax


class MLP(nn.Module):
    widths: tuple = (96, 48)

    @nn.compact
    def __call__(self, x):
        for width in self.widths:
            x = nn.Dense(width, kernel_init=nn.initializers.he_normal(), bias_init=nn.initializers.constant(-3.0))(x)
            x = nn.relu(x)
        return nn.Dense(10)(x)


@barograph.jax.observe
@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        return optax.softmax_cross_entropy_with_integer_labels(state.apply_fn({"params": params}, x), y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]
model = MLP()
params = model.init(jax.random.PRNGKey(args.seed), x[:1])["params"]
state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.05, momentum=0.9))
for epoch in range(20):
    for rows in np.array_split(rng.permutation(1280), 40):
        state, loss = train_step(state, x[rows], y[rows])
    right = (state.apply_fn({"params": state.params}, x[1280:]).argmax(1) == y[1280:]).mean()
    print(f"epoch {epoch}: loss {float(loss):.3f}, accuracy {float(right):.3f}")
