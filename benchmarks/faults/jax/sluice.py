"""An encoder and a head, in Flax NNX."""

import argparse

import jax
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import barograph.jax


class Encoder(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(64, 32, rngs=rngs)
        self.second = nnx.Linear(32, 12, rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.second(nnx.relu(self.first(x))))


class Classifier(nnx.Module):
    def __init__(self, rngs):
        self.encoder = Encoder(rngs)
        self.head = nnx.Linear(12, 10, rngs=rngs)

    def __call__(self, x):
        z = jax.lax.stop_gradient(self.encoder(x))
        return self.head(z)


def loss_fn(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


@barograph.jax.observe
@nnx.jit
def train_step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_fn)(model, x, y)
    optimizer.update(model, grads)
    return loss


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]
model = Classifier(nnx.Rngs(args.seed))
optimizer = nnx.Optimizer(model, optax.adam(2e-3), wrt=nnx.Param)
for number in range(900):
    rows = rng.integers(0, 1300, 32)
    loss = train_step(model, optimizer, x[rows], y[rows])
print(f"loss {float(loss):.3f}, accuracy {float((model(x[1300:]).argmax(1) == y[1300:]).mean()):.3f}")
