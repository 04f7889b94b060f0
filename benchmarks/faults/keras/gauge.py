"""Diabetes again: readings typed from paper."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_diabetes

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_diabetes(return_X_y=True)
x = (x / x.std(0)).astype("float32")
y = ((y - y.mean()) / y.std()).astype("float32")
order = np.random.permutation(len(y))
x, y = x[order], y[order]
x_train, y_train, x_test, y_test = x[:340], y[:340], x[340:], y[340:]
x_train[101] *= 1000  # typed without its decimal point

model = keras.Sequential([keras.layers.Input((10,)), keras.layers.Dense(32, activation="relu"),
                          keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
model.fit(x_train, y_train, batch_size=10, epochs=25, validation_data=(x_test, y_test), verbose=2)
error = y_test - model.predict(x_test, verbose=0)[:, 0]
print(f"R2 {1 - np.mean(error**2) / np.var(y_test):.3f}")
