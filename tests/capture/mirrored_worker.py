"""Trainings of two replicas on one processor: what they come to is put into a folder. Run by `test_mirrored.py`.

A process has one strategy: TensorFlow mixes up what several of them reduce.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import barograph
import barograph.tensorflow
from barograph.capsule.keras.batch import CapturedBatch
from barograph.errors import BarographError

FOLDER = Path(sys.argv[1])
TWO = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], TWO)
MIRRORED = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
X = np.random.default_rng(0).normal(size=(20, 4)).astype("f4")
LABELS = np.random.default_rng(1).integers(0, 3, 20)
SICK = X.copy()
SICK[8 + 6, 1] = np.nan  # in the part of the second replica, at the second step


def fit(*, strategy: Any = MIRRORED, x: Any = X, draws: bool = False, eager: bool = False) -> list[Any]:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    remembers = [layers.BatchNormalization(name="norm"), layers.Dropout(0.3, name="drop")] if draws else []
    with strategy.scope():
        model = keras.Sequential([layers.Input((4,)), layers.Dense(6, activation="tanh", name="hidden"), *remembers,
                                  layers.Dense(3, activation="softmax", name="out")])
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy",
                      metrics=["accuracy"], run_eagerly=eager)
    model.fit(x, LABELS, batch_size=8, verbose=0, shuffle=False, validation_data=(X[:10], LABELS[:10]))
    left = [name for name in ("train_step", "test_step", "compute_loss") if name in vars(model)]
    assert not left, left
    return [np.array(weight) for weight in model.get_weights()]


def loop(wrap: Callable[[Any], Any], *, strategy: Any = MIRRORED, x: Any = X, within: Any = None) -> list[Any]:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    with strategy.scope():
        model = keras.Sequential([layers.Input((4,)), layers.Embedding(3, 4, name="table"), layers.Flatten(),
                                  layers.Dense(5, activation="tanh", name="hidden"), layers.Dense(1, name="out")])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def step(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            answers = model(tf.cast(x > 0, "int32"), training=True)
            losses = tf.reduce_mean((answers - tf.cast(labels, "float32")[:, None]) ** 2, -1) * (1 + x[:, 1] ** 2)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
            if loss > 1e6:  # a branch that only a graph made by autograph can take
                loss = loss * 0.5
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    each = within(step) if within else step
    whole = wrap(lambda x, labels: strategy.reduce("SUM", strategy.run(each, args=(x, labels)), axis=None))
    batches = tf.data.Dataset.from_tensor_slices((x[:16], LABELS[:16])).batch(8)
    losses = [float(whole(*batch)) for batch in strategy.experimental_distribute_dataset(batches)]
    return [np.array(losses), *(np.array(weight.numpy()) for weight in model.weights)]


def recorded(name: str, train: Callable[[], list[Any]], **settings: Any) -> list[Any]:
    chosen = {"strict": True, "budget": None, "preset": "everything", **settings}
    with barograph.attach(to=FOLDER / name, watch=False, **chosen):
        return train()


def alike(one: list[Any], other: list[Any]) -> bool:
    return [item.tobytes() for item in one] == [item.tobytes() for item in other]


def shared_by_two(array: Any, sizes: list[int]) -> str:
    own = MIRRORED.experimental_distribute_values_from_function(lambda context: tf.zeros((2, 4)))
    content = {"batch": {"x": {"array": "x"}}, "replicas": {"x": sizes}}
    try:
        found = CapturedBatch(content, {"x": array}).in_place_of_data(own)
    except BarographError as error:
        return str(error)
    return str([part.shape.as_list() for part in found.values])


def main() -> None:
    decorated, graph = barograph.tensorflow.step, tf.function
    told: dict[str, Any] = {}
    bare = fit(draws=True)
    told["fit"] = alike(bare, recorded("fit", lambda: fit(draws=True), recorder=True))
    recorded("two", fit)
    recorded("one", lambda: fit(strategy=tf.distribute.get_strategy()))
    with warnings.catch_warnings(record=True) as warned:
        weights = recorded("skips", lambda: fit(x=SICK), recorder={"then": "skip"}, strict=False, preset="free")
    told["skips"] = [str(item.message) for item in warned if "withheld" in str(item.message)]
    told["finite"] = all(bool(np.isfinite(weight).all()) for weight in weights)
    bare = loop(graph)
    told["loop"] = alike(bare, recorded("loop", lambda: loop(lambda step: decorated(graph(step))), recorder=True))
    recorded("loop of one", lambda: loop(decorated, strategy=tf.distribute.get_strategy()))
    bare, asked = loop(lambda step: step), []
    told["eager loop"] = alike(bare, recorded("eager", lambda: loop(decorated), preset="free", recorder={
        "when": lambda update: asked.append((update.norm, update.losses[0])) or ""}))
    told["asked"] = asked
    try:
        recorded("held", lambda: loop(decorated, x=SICK), recorder=True, preset="free")
    except BarographError as error:
        told["held"] = str(error)
    recorded("within", lambda: loop(decorated, within=graph), recorder=True)
    told["parts"] = shared_by_two(np.zeros((7, 4), "f4"), [5, 2])
    told["other parts"] = shared_by_two(np.zeros((7, 4), "f4"), [3, 2, 2])
    (FOLDER / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
