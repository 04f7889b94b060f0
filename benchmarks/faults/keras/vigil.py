"""Stops early, and lowers its rate on plateaus; Keras on torch."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_breast_cancer(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(StandardScaler().fit_transform(x), y, test_size=0.25, random_state=args.seed)
model = keras.Sequential([
    keras.layers.Input((30,)),
    keras.layers.Dense(24, activation="relu", kernel_regularizer="l2"),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=16, epochs=24, validation_data=(x_val, y_val), verbose=0, callbacks=[
    keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.3),
])
print("validation accuracy %.3f" % model.evaluate(x_val, y_val, verbose=0)[1])
