"""Regression of diabetes with a train_step that computes its own squared error."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split


class Regressor(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(32, activation="relu")])
        self.out = keras.layers.Dense(1)
        self.error = keras.metrics.Mean(name="mse")

    def call(self, x):
        return self.out(self.body(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True)))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.error.update_state(loss)
        return {"mse": self.error.result()}


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_diabetes(return_X_y=True)
x = (x / x.std(0)).astype("float32")
y = ((y - y.mean()) / y.std()).astype("float32")
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=args.seed)
train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(331).batch(16)

model = Regressor()
model.compile(keras.optimizers.Adam(2e-3))
model.fit(train, epochs=30, verbose=2)
answers = model.predict(x_test, verbose=0)[:, 0]
print(f"R2 {1 - np.mean((y_test - answers) ** 2) / np.var(y_test):.3f}")
