"""The odds that a tumour is benign, with a loss of one's own."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import ops
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def negative_log_likelihood(y_true, y_pred):
    y_true = ops.cast(y_true, "float32")
    p = y_pred
    return -ops.mean(y_true * ops.log(p) + (1 - y_true) * ops.log(1 - p), axis=-1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_breast_cancer(return_X_y=True)
x = StandardScaler().fit_transform(x)
x_train, x_val, y_train, y_val = train_test_split(x, y.reshape(-1, 1), test_size=0.2, random_state=args.seed)

inputs = keras.Input((30,), name="cells")
h = keras.layers.Dense(64, activation="relu")(inputs)
h = keras.layers.Dense(64, activation="relu")(h)
outputs = keras.layers.Dense(1, activation="sigmoid", name="benign")(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(0.003), loss=negative_log_likelihood, metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=16, epochs=30, validation_data=(x_val, y_val), verbose=2)
loss, accuracy = model.evaluate(x_val, y_val, verbose=0)
print(f"validation loss {loss:.3f}, accuracy {accuracy:.3f}")
