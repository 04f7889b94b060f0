"""Digits, with initialisers chosen by hand; Keras on torch."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import initializers, layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def dense(units):
    return layers.Dense(units, activation="relu", kernel_initializer="he_normal",
                        bias_initializer=initializers.Constant(-3.0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x / 16, y, test_size=0.3, random_state=args.seed)
    model = keras.Sequential([layers.Input((64,)), dense(64), dense(32), layers.Dense(10)])
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(x_train, y_train, epochs=12, batch_size=32, validation_data=(x_test, y_test), verbose=0)
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"test loss {loss:.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
