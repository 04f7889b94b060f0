"""Keras's `fit` on the images of digits in scikit-learn, with the backend of the environment.

    python keras_fit.py EPOCHS
"""

import sys

import keras
from sklearn.datasets import load_digits

from benchmarks.coverage.meter import Meter

EPOCHS, BATCH = int(sys.argv[1]), 64
BATCHES = 1792 // BATCH


class Count(keras.callbacks.Callback):
    """Notes the loss of each batch, from the running means that Keras logs."""

    def on_train_batch_end(self, batch, logs=None):
        total = float(logs["loss"]) * (batch + 1)
        meter.step(total - (self.total if batch else 0.0), float(schedule(self.steps)))
        self.total, self.steps = total, self.steps + 1


meter = Meter()
keras.utils.set_random_seed(0)
x, y = load_digits(return_X_y=True)
x, y = x[:1792].astype("float32") / 16.0, y[:1792]
model = keras.Sequential([
    keras.layers.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax"),
])
schedule = keras.optimizers.schedules.ExponentialDecay(1e-3, 1000, 0.9)
model.compile(keras.optimizers.Adam(schedule), "sparse_categorical_crossentropy", metrics=["accuracy"])
count = Count()
count.total, count.steps = 0.0, 0
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[count])
meter.done()
