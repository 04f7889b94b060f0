"""Benign or malignant in Flax Linen; the rows are shuffled by JAX for each epoch."""

import argparse

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import barograph.jax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(32)(x))
        return nn.Dense(2)(x)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_breast_cancer(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(StandardScaler().fit_transform(x), y, train_size=448, random_state=args.seed)
x_train, y_train = jnp.asarray(x_train, jnp.float32), jnp.asarray(y_train)
model, tx = Net(), optax.adamw(2e-3)
key = jax.random.key(args.seed)
params = model.init(key, x_train[:1])
opt_state = tx.init(params)


@barograph.jax.observe
@jax.jit
def step(params, opt_state, x, y):
    def loss_fn(params):
        scores = model.apply(params, x)
        barograph.jax.predictions(y, scores)
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


for epoch in range(30):
    key, for_x, for_y = jax.random.split(key, 3)
    xs = jax.random.permutation(for_x, x_train)
    ys = jax.random.permutation(for_y, y_train)
    for begin in range(0, 448, 16):
        params, opt_state, loss = step(params, opt_state, xs[begin:begin + 16], ys[begin:begin + 16])
scores = model.apply(params, jnp.asarray(x_test, jnp.float32))
print(f"loss {float(loss):.3f}, accuracy {float((scores.argmax(1) == y_test).mean()):.3f}")
