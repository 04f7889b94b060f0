"""Digits with dropout, warm-up, cosine decay and AdamW, in Flax Linen."""

import argparse

import flax.linen as nn
import jax
import numpy as np
import optax
from sklearn.datasets import load_digits

import barograph.jax

STEPS = 800


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, training):
        x = nn.Dense(96)(x)
        for _ in range(2):
            h = nn.LayerNorm()(x)
            h = nn.Dense(96)(nn.gelu(nn.Dense(96)(h)))
            x = x + nn.Dropout(0.1, deterministic=not training)(h)
        return nn.Dense(10)(x)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
order = rng.permutation(len(y))
x, y = x[order], y[order]

model = Net()
params = model.init(jax.random.key(args.seed), x[:1], False)
schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-3, 80, STEPS)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01))
opt_state = tx.init(params)


@barograph.jax.observe
@jax.jit
def step(params, opt_state, x, y, key):
    def loss_fn(params):
        scores = model.apply(params, x, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@barograph.jax.observe(evaluation=True)
@jax.jit
def evaluate(params, x, y):
    scores = model.apply(params, x, False)
    return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean(), (scores.argmax(1) == y).mean()


key = jax.random.key(args.seed + 1)
for number in range(STEPS):
    rows = rng.integers(0, 1300, 32)
    key, dropout = jax.random.split(key)
    params, opt_state, loss = step(params, opt_state, x[rows], y[rows], dropout)
    if number % 100 == 99:
        test_loss, accuracy = evaluate(params, x[1300:], y[1300:])
        print(f"{number + 1}: loss {loss:.3f}, test loss {test_loss:.3f}, accuracy {accuracy:.3f}")
