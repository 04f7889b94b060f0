"""A compiled step of JAX with Optax on the images of digits in scikit-learn.

    python jax_loop.py STEPS [observe]

With "observe", the step is wrapped in the one line that recording requires.
"""

import sys

import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

from benchmarks.coverage.meter import Meter

STEPS, BATCH = int(sys.argv[1]), 64

meter = Meter()
x, y = load_digits(return_X_y=True)
x, y = jnp.asarray(x / 16.0, jnp.float32), jnp.asarray(y)
keys = jax.random.split(jax.random.key(0), 3)
params = {
    "l1": {"kernel": jax.random.normal(keys[0], (64, 128)) * 0.17, "bias": jnp.zeros(128)},
    "l2": {"kernel": jax.random.normal(keys[1], (128, 10)) * 0.12, "bias": jnp.zeros(10)},
}
schedule = optax.cosine_decay_schedule(1e-2, STEPS)
tx = optax.adam(schedule)


def loss_fn(params, x, y):
    h = jax.nn.relu(x @ params["l1"]["kernel"] + params["l1"]["bias"])
    logits = h @ params["l2"]["kernel"] + params["l2"]["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


step = jax.jit(step)
if "observe" in sys.argv[2:]:
    import barograph.jax

    step = barograph.jax.observe(step)

state = tx.init(params)
for number in range(STEPS):
    start = number * BATCH % (len(x) - BATCH)
    params, state, loss = step(params, state, x[start : start + BATCH], y[start : start + BATCH])
    meter.step(loss, float(schedule(number)))
meter.done()
