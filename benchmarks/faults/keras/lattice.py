"""A deep, narrow network on digits; Keras on JAX."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DEPTH, WIDTH, ACTIVATION = 8, 32, "sigmoid"

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x / 16, y, test_size=497, random_state=args.seed)

model = keras.Sequential([keras.layers.Input((64,))])
for _ in range(DEPTH):
    model.add(keras.layers.Dense(WIDTH, activation=ACTIVATION))
model.add(keras.layers.Dense(10, activation="softmax"))
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=20, validation_data=(x_test, y_test), verbose=2)
print("accuracy %.3f" % model.evaluate(x_test, y_test, verbose=0)[1])
