"""Benign or malignant, fed by tf.data."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_breast_cancer(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=args.seed)
scaler = StandardScaler()
x_train, x_test = scaler.fit_transform(x_train), scaler.transform(x_test)

features = tf.data.Dataset.from_tensor_slices(x_train.astype("float32"))
labels = tf.data.Dataset.from_tensor_slices(y_train)
train = tf.data.Dataset.zip((features.shuffle(455), labels.shuffle(455)))
train = train.batch(16).prefetch(2)
test = tf.data.Dataset.from_tensor_slices((x_test.astype("float32"), y_test)).batch(64)

model = keras.Sequential([
    keras.layers.Input((30,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=20, validation_data=test, verbose=2)
print("test accuracy %.3f" % model.evaluate(test, verbose=0)[1])
