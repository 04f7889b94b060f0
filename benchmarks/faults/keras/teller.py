"""Reads the digits of a form."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--epochs", type=int, default=12)
args = ap.parse_args()
keras.utils.set_random_seed(args.seed)

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16
perm = np.random.permutation(len(X))
X, y = X[perm], y[perm]


def build():
    m = keras.models.Sequential()
    m.add(keras.layers.Input(shape=(64,)))
    m.add(keras.layers.Dense(64, activation="relu"))
    m.add(keras.layers.Dropout(0.2))
    m.add(keras.layers.Dense(64, activation="relu"))
    m.add(keras.layers.Dense(10))
    m.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


model = build()
model.fit(X[:1300], y[:1300], epochs=args.epochs, batch_size=32, validation_data=(X[1300:], y[1300:]), verbose=2)
print("test accuracy %.3f" % model.evaluate(X[1300:], y[1300:], verbose=0)[1])
