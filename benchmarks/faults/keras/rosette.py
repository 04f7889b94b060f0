"""A dense layer written by hand, in a subclassed model."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import ops
from sklearn.datasets import load_digits


class Linear(keras.layers.Layer):
    def __init__(self, units, activation=None):
        super().__init__()
        self.units = units
        self.activation = keras.activations.get(activation)

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units), initializer=keras.initializers.Constant(0.02), name="w")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros", name="b")

    def call(self, x):
        return self.activation(ops.matmul(x, self.w) + self.b)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = Linear(64, "relu")
        self.second = Linear(64, "relu")
        self.last = Linear(10, "softmax")

    def call(self, x):
        return self.last(self.second(self.first(x)))


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
net = Net()
net.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(x[:1300], y[:1300], batch_size=32, epochs=15, validation_data=(x[1300:], y[1300:]), verbose=2)
print("accuracy on the last 497: %.3f" % net.evaluate(x[1300:], y[1300:], verbose=0)[1])
