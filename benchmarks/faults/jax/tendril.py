"""Wines with Flax Linen; SGD with momentum."""

import argparse

import flax.linen as nn
import jax
import numpy as np
import optax
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import barograph.jax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(32)(x))
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(3)(x)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--lr", type=float, default=2e-5)
args = parser.parse_args()

x, y = load_wine(return_X_y=True)
rng = np.random.default_rng(args.seed)
order = rng.permutation(len(y))
x, y = StandardScaler().fit_transform(x)[order].astype(np.float32), y[order]
x_train, y_train, x_test, y_test = x[:130], y[:130], x[130:], y[130:]

model = Net()
params = model.init(jax.random.PRNGKey(args.seed), x[:1])
optimizer = optax.sgd(args.lr, momentum=0.9)
opt_state = optimizer.init(params)


def cross_entropy(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()


@barograph.jax.observe
@jax.jit
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(cross_entropy)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss}


@barograph.jax.observe(evaluation=True)
@jax.jit
def eval_step(params, x, y):
    return {"loss": cross_entropy(params, x, y), "accuracy": (model.apply(params, x).argmax(1) == y).mean()}


for epoch in range(50):
    shuffled = rng.permutation(130)
    for begin in range(0, 128, 8):
        rows = shuffled[begin:begin + 8]
        params, opt_state, metrics = train_step(params, opt_state, x_train[rows], y_train[rows])
    test = eval_step(params, x_test, y_test)
    print(f"epoch {epoch}: loss {metrics['loss']:.3f}, test loss {test['loss']:.3f}, accuracy {test['accuracy']:.3f}")
