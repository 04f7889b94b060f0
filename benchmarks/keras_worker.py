"""Measures steps of Keras's `fit`, on the backend of the environment, in this process."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from barograph.capture.keras.integration import KerasIntegration, listening
from barograph.capture.recording import current
from benchmarks.processes import Request, Result, answer_request
from benchmarks.recorded_steps import attached, measured


def measure(request: Request) -> Result:
    """Return the blocks of steps, one `fit` each, and the number of steps with recorded tensors."""
    keras.utils.set_random_seed(0)
    model, x, y = {"resnet": _resnet, "gpt": _gpt}[request["workload"]]()
    run = attached(request)
    integration, recording = listening(), current()
    if not isinstance(integration, KerasIntegration) or recording is None:
        raise ValueError("nothing is recorded, so there is nothing to measure")

    def recorded(steps: int) -> None:
        if request["how"] == "tensorflow":
            model.fit(_endless(x, y), verbose=0, callbacks=[_Until(steps)])
        else:
            model.fit(((x, y) for _ in range(steps)), verbose=0)

    def bare(steps: int) -> None:
        # As without Barograph: the function made by Keras, and no listeners of the wrappers.
        wrappers, function = integration._wrappers, model.train_function
        if function is None:
            recorded(1)  # creates both
            function = model.train_function
        wrappers._listener, model.train_function = None, function.of_keras
        try:
            with recording.aside("torch"):
                recorded(steps)
        finally:
            wrappers._listener, model.train_function = integration, function

    return measured(request, run, bare, recorded)


class _Until(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends a training after this many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note that a step was made."""
        self._left -= 1
        if not self._left:
            self.model.stop_training = True


def _endless(x: Any, y: Any) -> Any:
    """Return data that repeat the same batch forever, without Python and without an autotuning thread.

    A generator would be called by a TensorFlow operation, which would have no thread if a step occupies the only one.
    The autotuning thread sleeps for up to seconds, and freeing the data of an earlier `fit` waits for it: in any step
    in which Python collects garbage.
    """
    import tensorflow

    options = tensorflow.data.Options()
    options.autotune.enabled = False
    return tensorflow.data.Dataset.from_tensors((x, y)).repeat().with_options(options)


def _resnet() -> tuple[Any, Any, Any]:
    """ResNet-18 for 32×32 images, batch 10, SGD with momentum."""
    inputs = layers.Input((32, 32, 3))
    h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 3, padding="same", use_bias=False)(inputs)))
    for width in (64, 128, 256, 512):
        for stride in (1 if width == 64 else 2, 1):
            inner = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(h)
            inner = layers.ReLU()(layers.BatchNormalization()(inner))
            inner = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(inner))
            if h.shape[-1] != width:
                h = layers.BatchNormalization()(layers.Conv2D(width, 1, strides=stride, use_bias=False)(h))
            h = layers.ReLU()(layers.Add()([inner, h]))
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(h)))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    draw = np.random.default_rng(0)
    return model, draw.normal(size=(10, 32, 32, 3)).astype(np.float32), draw.integers(0, 10, 10)


def _gpt() -> tuple[Any, Any, Any]:
    """Six blocks 256 wide, 4 × 128 tokens, AdamW."""
    inputs = layers.Input((128,), dtype="int32")
    places = keras.ops.cumsum(keras.ops.ones_like(inputs), 1) - 1
    h = layers.Add()([layers.Embedding(2048, 256)(inputs), layers.Embedding(128, 256)(places)])
    for _ in range(6):
        normed = layers.LayerNormalization()(h)
        h = layers.Add()([h, layers.MultiHeadAttention(8, 32)(normed, normed, use_causal_mask=True)])
        inner = layers.Dense(1024, activation="gelu")(layers.LayerNormalization()(h))
        h = layers.Add()([h, layers.Dense(256)(inner)])
    model = keras.Model(inputs, layers.Dense(2048, use_bias=False)(layers.LayerNormalization()(h)))
    model.compile(keras.optimizers.AdamW(3e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    draw = np.random.default_rng(0)
    return model, draw.integers(0, 2048, (4, 128)).astype(np.int32), draw.integers(0, 2048, (4, 128))


if __name__ == "__main__":
    answer_request(measure)
