"""What the graph of a loss that a script of TensorFlow computes itself tells of how it was made."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras is not installed")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
if keras.backend.backend() != "tensorflow":
    pytest.skip("Keras runs on another backend", allow_module_level=True)

import barograph  # noqa: E402

_RUNS = itertools.count()


class Regressor(keras.Model):  # type: ignore[misc]
    """A model whose loss its own step computes."""

    def __init__(self, difference: Any) -> None:
        super().__init__()
        self.out = keras.layers.Dense(1)
        self.difference = difference

    def call(self, x: Any) -> Any:
        return self.out(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.difference(y, self(x, training=True))))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"error": loss}


@pytest.mark.parametrize(("difference", "told"), [
    (lambda y, answers: y - answers, 4.0),
    (lambda y, answers: y[:, None] - answers, 1.0),
    (lambda y, answers: y - answers[:, 0], 1.0),
    (lambda y, answers: tf.expand_dims(answers[:, 0], 1) - y, 1.0),
])  # fmt: skip
def test_targets_that_are_broadcast_in_a_step_of_the_scripts_own_are_told(difference: Any, told: float) -> None:
    model = Regressor(difference)
    model.compile(keras.optimizers.SGD(0.01))
    data = tf.data.Dataset.from_tensor_slices((np.ones((8, 3), np.float32), np.zeros(8, np.float32))).batch(4)
    url = f"memory://keras-loss-graph/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None):
        model.fit(data, verbose=0, shuffle=False)
    assert barograph.open(url).series("fact:broadcast").values.tolist() == [told, told]


def likelihood(y: Any, chance: Any) -> Any:
    return -keras.ops.mean(y * keras.ops.log(chance) + (1 - y) * keras.ops.log(1 - chance), axis=-1)


def clipped(y: Any, chance: Any) -> Any:
    return likelihood(y, keras.ops.clip(chance, 1e-6, 1 - 1e-6)) + 0 * keras.ops.exp(1000 * chance)


@pytest.mark.parametrize(("loss", "told"), [(likelihood, [1.0]), (clipped, [])])
def test_a_logarithm_of_zero_that_made_the_loss_not_finite_is_told(loss: Any, told: list[float]) -> None:
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, activation="sigmoid",
                                                                            bias_initializer="ones")])  # fmt: skip
    model.compile(keras.optimizers.SGD(0.01), loss)
    x, y = np.full((8, 3), 1e4, np.float32), np.ones((8, 1), np.float32)
    model.layers[-1].kernel.assign(np.ones((3, 1)))
    url = f"memory://keras-loss-graph/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None):
        model.fit(x, y, batch_size=4, verbose=0)
    run = barograph.open(url)
    facts = [str(key) for key in run.keys(kind="fact")]
    assert [1.0 for key in facts if key == "fact:bad_operation[log]"] == told
    assert not np.isfinite(run.series("loss:total").values[0])
