"""`barograph run` on a JAX training of digits with one line around its step."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("optax", reason="Optax is not installed")

DIGITS = '''
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import barograph.jax

x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
tx = optax.adam(1e-2)
first, second = jax.random.split(jax.random.key(0))
params = {"fc1": {"kernel": jax.random.normal(first, (64, 32)) * 0.1},
          "fc2": {"kernel": jax.random.normal(second, (32, 10)) * 0.1}}
state = tx.init(params)


def loss_fn(params, x, y):
    hidden = barograph.jax.record("fc1", jax.nn.relu(x @ params["fc1"]["kernel"]), layer="ReLU")
    scores = hidden @ params["fc2"]["kernel"]
    barograph.jax.predictions(y, scores)
    return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()


@barograph.jax.observe
@jax.jit
def step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = tx.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


for number in range(40):
    batch = x[number * 32:number * 32 + 32].copy()
    if number == 30:
        batch[0, 0] = np.nan
    params, state, loss = step(params, state, batch, y[number * 32:number * 32 + 32])
print(float(loss))
'''


def test_a_nan_in_a_jax_training_is_found_at_its_step(desk):
    desk.write("train.py", DIGITS)
    ended = desk.run("train.py")
    assert ended.code == 0, ended.err
    assert "G103" in ended.err or "NaN" in ended.err
    run = desk.open()
    losses = run.series("loss:total")
    assert losses.steps.tolist() == list(range(40))
    assert np.flatnonzero(np.isnan(losses.values))[0] == 30
    assert {0, 1, 2, 4, 8, 16} <= {*run.series("gradient:fc1.kernel", "l2").steps.tolist()}
    assert {key.path for key in run.keys(kind="label")} >= {"predictions[3]"}
