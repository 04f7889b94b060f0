"""A rare class, weighted: one digit in thirty is a three."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils.class_weight import compute_class_weight

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_digits(return_X_y=True)
x, y = (x / 16).astype("float32"), (y == 3).astype("int64")
order = np.random.permutation(len(y))
x, y = x[order], y[order]
test, rest = np.arange(500), np.arange(500, len(y))
rare = rest[y[rest] == 1][:40]
train = np.concatenate([rest[y[rest] == 0], rare])
weights = dict(enumerate(compute_class_weight("balanced", classes=np.array([0, 1]), y=y[train])))
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(32, activation="relu"),
                          keras.layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[train], y[train], epochs=15, batch_size=32, class_weight=weights, validation_data=(x[test], y[test]), verbose=2)
answers = model.predict(x[test], verbose=0).argmax(1)
print(f"recall {np.mean(answers[y[test] == 1]):.3f}, false alarms {np.mean(answers[y[test] == 0]):.3f}")
