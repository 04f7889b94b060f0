"""Whatever way a network of Keras is trained, rules are fed the same; `test_keras_backends` runs other backends."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

from barograph.attached import AttachedRun
from barograph.model.key import Kind
from barograph.testing.frameworks import OF_A_CLASSIFICATION, recorded_kinds

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")

BACKEND = keras.backend.backend()

pytestmark = [
    # How Keras reads a tensor of torch as an array.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 4)).astype(np.float32), RNG.integers(0, 3, 24)


def network(base: type[Any] = keras.Model) -> Any:
    given = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="relu", name="hidden")(given)
    return base(given, keras.layers.Dense(3, activation="softmax", name="out")(hidden))


def compiled(base: type[Any] = keras.Model) -> Any:
    model = network(base)
    metrics = ["accuracy"] if base is keras.Model else None
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(), metrics=metrics)
    return model


def batches() -> Any:
    return ((X[begin:begin + 8], Y[begin:begin + 8]) for begin in range(0, 24, 8))


def fit(_: AttachedRun) -> None:
    compiled().fit(X, Y, batch_size=8, verbose=0)


def train_on_batch(_: AttachedRun) -> None:
    model = compiled()
    for x, y in batches():
        model.train_on_batch(x, y)


def train_on_batch_after_evaluate(_: AttachedRun) -> None:
    model = compiled()
    model.evaluate(X, Y, verbose=0)
    for x, y in batches():
        model.train_on_batch(x, y)


def train_step_of_ones_own(_: AttachedRun) -> None:
    class Own(keras.Model):  # type: ignore[misc, name-defined]
        def train_step(self, data: Any) -> Any:
            x, y = data
            if BACKEND == "torch":
                self.zero_grad()
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
                loss.backward()
                weights = list(self.trainable_weights)
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
            else:
                import tensorflow

                with tensorflow.GradientTape() as tape:
                    loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
                gradients = tape.gradient(loss, self.trainable_variables)
                self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    compiled(Own).fit(X, Y, batch_size=8, verbose=0)


def loop_by_hand(_: AttachedRun) -> None:
    model, loss_of = network(), keras.losses.SparseCategoricalCrossentropy()
    if BACKEND == "torch":
        import torch

        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for x, y in batches():
            optimizer.zero_grad()
            loss_of(torch.tensor(y), model(torch.tensor(x), training=True)).backward()
            optimizer.step()
        return
    import tensorflow

    import barograph.tensorflow

    optimizer = keras.optimizers.Adam(0.01)

    @barograph.tensorflow.step
    def step(x: Any, y: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for x, y in batches():
        step(x, y)


def loop_of_torch_with_an_optimizer_of_keras(_: AttachedRun) -> None:
    import torch

    model, loss_of = network(), keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.Adam(0.01)
    for x, y in batches():
        model.zero_grad()
        loss_of(torch.tensor(y), model(torch.tensor(x), training=True)).backward()
        weights = list(model.trainable_weights)
        with torch.no_grad():
            optimizer.apply([weight.value.grad for weight in weights], weights)


WAYS = [fit, train_on_batch, train_on_batch_after_evaluate]
if BACKEND != "jax":
    WAYS += [train_step_of_ones_own, loop_by_hand]
if BACKEND == "torch":
    WAYS += [loop_of_torch_with_an_optimizer_of_keras]


LACKING = {
    # Layers of Keras call no hooks of torch, and its optimizers are none of torch's.
    "loop_by_hand": {Kind.OUTPUT} if BACKEND == "torch" else set(),
    "loop_of_torch_with_an_optimizer_of_keras": {Kind.OUTPUT, Kind.LEARNING_RATE},
}


@pytest.mark.parametrize("way", WAYS)
def test_rules_are_fed_the_same_whatever_way_a_network_is_trained(way: Any) -> None:
    assert OF_A_CLASSIFICATION - recorded_kinds(way) == LACKING.get(way.__name__, set())
