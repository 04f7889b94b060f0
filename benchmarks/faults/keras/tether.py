"""A regularised classifier of digits."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import layers, regularizers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--decay", type=float, default=0.1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x / 16, y, test_size=497, random_state=args.seed)

penalty = regularizers.L2(args.decay)
inputs = keras.Input((64,))
z = layers.Dense(64, activation="relu", kernel_regularizer=penalty)(inputs)
z = layers.Dense(32, activation="relu", kernel_regularizer=penalty)(z)
model = keras.Model(inputs, layers.Dense(10, kernel_regularizer=penalty)(z))
model.compile(keras.optimizers.SGD(0.05, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=15, validation_data=(x_test, y_test), verbose=2)
print("test accuracy %.3f" % model.evaluate(x_test, y_test, verbose=0)[1])
