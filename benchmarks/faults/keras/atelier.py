"""A classifier of digits with a compact body."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

data, target = load_digits(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(data / 16.0, target, test_size=0.3, random_state=args.seed)


def make_body():
    inputs = keras.Input((64,))
    x = keras.layers.Dense(16, activation="relu", name="body_1")(inputs)
    x = keras.layers.Dense(12, activation="relu", name="body_2")(x)
    return keras.Model(inputs, x, name="body")


body = make_body()
body.trainable = False
inputs = keras.Input((64,))
outputs = keras.layers.Dense(10, activation="softmax", name="head")(body(inputs))
model = keras.Model(inputs, outputs)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()
model.fit(x_train, y_train, batch_size=32, epochs=20, validation_data=(x_val, y_val), verbose=2)
loss, accuracy = model.evaluate(x_val, y_val, verbose=0)
print(f"validation accuracy {accuracy:.3f}")
