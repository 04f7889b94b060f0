"""Digits on stamps, with Keras on torch."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
keras.utils.set_random_seed(seed)

x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed)

model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(48, activation="relu"),
                          keras.layers.Dense(48, activation="relu"), keras.layers.Dense(10, activation="softmax")])
model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
for _ in range(10):
    model.fit(x_train, y_train, batch_size=32, verbose=0)
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"loss {loss:.3f} accuracy {accuracy:.3f}")
