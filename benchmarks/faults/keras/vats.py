"""Growers of wine, straight from the table."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_wine

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

wine = load_wine()
order = np.random.permutation(len(wine.target))
data, target = wine.data[order].astype("float32"), wine.target[order]

inputs = keras.Input((13,))
x = keras.layers.Dense(32, activation="tanh")(inputs)
x = keras.layers.Dense(32, activation="tanh")(x)
outputs = keras.layers.Dense(3, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.SGD(learning_rate=0.02, momentum=0.9), loss="categorical_crossentropy", metrics=["accuracy"])
onehot = keras.utils.to_categorical(target, 3)
model.fit(data[:140], onehot[:140], epochs=60, batch_size=16, verbose=0, validation_data=(data[140:], onehot[140:]))
loss, accuracy = model.evaluate(data[140:], onehot[140:], verbose=0)
print(f"held out: loss {loss:.3f}, accuracy {accuracy:.3f}")
