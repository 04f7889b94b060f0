"""Two patients a batch: a noisy loss that is as it should be."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_diabetes(return_X_y=True)
x, y = x / x.std(0), (y - y.mean()) / y.std()
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=args.seed)
model = keras.Sequential([keras.layers.Input((10,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.002), keras.losses.Huber())
model.fit(x_train, y_train, batch_size=2, epochs=12, verbose=2, validation_data=(x_test, y_test))
error = y_test - model.predict(x_test, verbose=0)[:, 0]
print(f"R2 {1 - np.mean(error**2) / np.var(y_test):.3f}")
