"""Finds the rare faulty part among many sound ones: an eight among other digits."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_digits(return_X_y=True)
x, y = (x / 16).astype("float32"), (y == 8).astype("int64")
order = np.random.permutation(len(y))
x, y = x[order], y[order]
x_test, y_test = x[:600], y[:600]
sound, faulty = 600 + np.flatnonzero(y[600:] == 0), 600 + np.flatnonzero(y[600:] == 1)
train = np.concatenate([sound, faulty[:14]])
x_train, y_train = x[train], y[train]

model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(24, activation="relu"),
                          keras.layers.Dense(1, activation="sigmoid")])
model.compile(keras.optimizers.SGD(0.02), "binary_crossentropy", metrics=["accuracy", keras.metrics.Recall(name="recall")])
weights = None
model.fit(x_train, y_train, epochs=20, batch_size=32, class_weight=weights, validation_data=(x_test, y_test), verbose=2)
_, accuracy, recall = model.evaluate(x_test, y_test, verbose=0)
print(f"accuracy {accuracy:.3f}, faulty parts found {recall:.3f}")
