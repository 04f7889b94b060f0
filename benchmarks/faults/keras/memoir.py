"""Progression of diabetes after a year, by a large network."""

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

x, y = load_diabetes(return_X_y=True, scaled=False)
x = (x - x.mean(0)) / x.std(0)
y = (y - y.mean()) / y.std()
x_train, x_val, y_train, y_val = train_test_split(x, y, train_size=200, random_state=args.seed)

model = keras.Sequential([
    keras.layers.Input((10,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(1e-3), loss="mse")
callbacks = [keras.callbacks.TerminateOnNaN()]
history = model.fit(x_train, y_train, batch_size=20, epochs=150, validation_data=(x_val, y_val), callbacks=callbacks,
                    verbose=0)
error = y_val - model.predict(x_val, verbose=0)[:, 0]
print(f"epochs {len(history.history['loss'])}, R2 on held-out patients {1 - np.mean(error**2) / np.var(y_val):.3f}")
