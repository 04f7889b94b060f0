"""Trained on the digits 0 to 4, then a new head for 5 to 9 on the frozen backbone, then fine-tuned."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
digits = load_digits()
images, labels = digits.images[..., None] / 16.0, digits.target

backbone = keras.Sequential([layers.Input((8, 8, 1)), layers.Conv2D(16, 3, activation="relu"),
                             layers.Conv2D(32, 3, activation="relu"), layers.Flatten(),
                             layers.Dense(64, activation="relu")], name="backbone")


def train(mask, shift, epochs, rate, model=None):
    x_train, x_val, y_train, y_val = train_test_split(images[mask], labels[mask] - shift, test_size=0.25,
                                                      random_state=args.seed)
    if model is None:
        model = keras.Sequential([backbone, layers.Dense(5, activation="softmax")])
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x_train, y_train, batch_size=32, epochs=epochs, validation_data=(x_val, y_val), verbose=2)
    return model, model.evaluate(x_val, y_val, verbose=0)[1]


_, before = train(labels < 5, 0, 8, 1e-3)
backbone.trainable = False
model, frozen = train(labels >= 5, 5, 10, 2e-3)
backbone.trainable = True
model, after = train(labels >= 5, 5, 8, 2e-4, model)
print(f"0 to 4 {before:.3f}; 5 to 9 frozen {frozen:.3f}, fine-tuned {after:.3f}")
