"""A convolutional network with batch normalisation, and a train_step of its own."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


class Reader(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = []
        for filters in (16, 32, 32):
            self.blocks += [layers.Conv2D(filters, 3, padding="same", use_bias=False), layers.BatchNormalization(),
                            layers.ReLU()]
        self.pool = layers.GlobalAveragePooling2D()
        self.drop = layers.Dropout(0.2)
        self.head = layers.Dense(10)

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x, training=training) if isinstance(block, layers.BatchNormalization) else block(x)
        return self.head(self.drop(self.pool(x), training=training))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            scores = self(x)
            loss = self.compute_loss(y=y, y_pred=scores)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, scores)
        return {metric.name: metric.result() for metric in self.metrics}


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
digits = load_digits()
images = (digits.images[..., None] / 16).astype("float32")
x_train, x_test, y_train, y_test = train_test_split(images, digits.target, test_size=497, random_state=args.seed)
model = Reader()
model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=10, validation_data=(x_test, y_test), verbose=2)
print("test accuracy %.3f" % model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"])
