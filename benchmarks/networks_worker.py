"""Trains random Keras networks, with and without Barograph, and reports which bits differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import layers, optimizers

import barograph
from barograph.model.key import Kind
from barograph.model.selection import Histogram, Selection
from benchmarks.processes import Request, Result, answer_request

_KINDS = frozenset({Kind.OUTPUT, Kind.INPUT, Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE, Kind.OPTIMIZER_STATE})

_RECORDED: Mapping[str, Selection] = {
    "moments": Selection("moments", kinds=_KINDS),
    "histograms and units": Selection("units", kinds=_KINDS, histogram=Histogram.EXACT, units=True),
}

_ACTIVATIONS = ("gelu", "silu", "tanh", "relu", "softplus", "elu", "sigmoid", "mish")

_BATCH = 8

Block = Callable[[Any, int, str], Any]
"""Builds a layer from its input, its width and the name of an activation; returns its output, of the same shape."""

_BLOCKS: Mapping[str, Block] = {
    "dense": lambda h, width, act: layers.Add()([h, layers.Dense(width, activation=act)(h)]),
    "attention": lambda h, width, act: layers.Add()([h, layers.MultiHeadAttention(2, width // 2)(h, h)]),
    "layer norm": lambda h, width, act: layers.LayerNormalization()(h),
    "product": lambda h, width, act: layers.Multiply()([
        layers.Dense(width, activation=act)(h), layers.Dense(width)(h)]),
    "convolution": lambda h, width, act: layers.Add()([
        h, layers.Conv1D(width, 3, padding="same", activation=act)(h)]),
    "dropout": lambda h, width, act: layers.Dropout(0.2)(h),
    "batch norm": lambda h, width, act: layers.BatchNormalization()(layers.Dense(width)(h)),
    "gate": lambda h, width, act: layers.Add()([h, layers.Multiply()([
        layers.Dense(width, activation="sigmoid")(h), layers.Dense(width, activation=act)(h)])]),
    "group norm": lambda h, width, act: layers.Subtract()([
        layers.GroupNormalization(2)(h), layers.SpatialDropout1D(0.1)(h)]),
}

_OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "Adam": lambda: optimizers.Adam(0.01),
    "SGD, clipped": lambda: optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0),
    "AdamW, clipped": lambda: optimizers.AdamW(0.01, global_clipnorm=1.0),
    "RMSprop": lambda: optimizers.RMSprop(0.01),
    "Lion": lambda: optimizers.Lion(0.001),
    "Adafactor": lambda: optimizers.Adafactor(0.01),
    "Adam with averages": lambda: optimizers.Adam(0.01, use_ema=True),
    "SGD, Nesterov": lambda: optimizers.SGD(0.05, nesterov=True, momentum=0.9, weight_decay=0.01),
    "Adamax": lambda: optimizers.Adamax(0.01),
}

_names = itertools.count()


def measure(request: Request) -> Result:
    """Return for each seed the network, whether it is reproducible, and which recordings change its bits."""
    found = []
    for seed in request["seeds"]:
        what, bare = _trained(seed)
        differs = [name for name, chosen in _RECORDED.items() if _trained(seed, chosen)[1] != bare]
        found.append({"seed": seed, "what": what, "repeats": _trained(seed)[1] == bare, "differs": differs})
    return {"networks": found}


def _trained(seed: int, chosen: Selection | None = None) -> tuple[str, list[bytes]]:
    """Return the description of the trained network, and its final bits."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    draw = np.random.default_rng(seed)
    length, width = int(draw.integers(3, 20)), int(draw.choice([4, 8, 16, 32, 64]))
    blocks = [(str(draw.choice(list(_BLOCKS))), str(draw.choice(_ACTIVATIONS))) for _ in range(draw.integers(2, 6))]
    optimizer, pooling = str(draw.choice(list(_OPTIMIZERS))), str(draw.choice(["mean", "max"]))
    h = inputs = layers.Input((length, width))
    for block, activation in blocks:
        h = _BLOCKS[block](h, width, activation)
    h = layers.GlobalAveragePooling1D()(h) if pooling == "mean" else layers.GlobalMaxPooling1D()(h)
    model = keras.Model(inputs, layers.Dense(6)(h))
    model.compile(_OPTIMIZERS[optimizer](), "mse")
    x = draw.normal(size=(4 * _BATCH, length, width)).astype(np.float32)
    y = draw.normal(size=(len(x), 6)).astype(np.float32)

    def fit() -> None:
        model.fit(x, y, batch_size=_BATCH, epochs=2, shuffle=False, verbose=0)

    if chosen is None:
        fit()
    else:
        place = f"memory://networks/{next(_names)}"
        with barograph.attach(to=place, watch=False, budget=None, preset="free", collections=(chosen,), strict=True):
            fit()
        run = barograph.open(place)
        missing = [kind.value for kind in _KINDS if not run.keys(kind=kind)]
        if missing:
            raise ValueError(f"nothing was recorded of {', '.join(missing)}, so there is nothing to compare")
    bits = [np.asarray(keras.ops.convert_to_numpy(variable)).tobytes()
            for variable in (*model.variables, *model.optimizer.variables)]
    return f"{length} × {width}: {', '.join(f'{name} ({act})' for name, act in blocks)}, {pooling}; {optimizer}", bits


if __name__ == "__main__":
    answer_request(measure)
