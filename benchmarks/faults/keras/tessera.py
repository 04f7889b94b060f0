"""A convolutional network with augmentation; Keras on JAX."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(digits.images[..., None] / 16, digits.target, test_size=497,
                                                    random_state=args.seed)
model = keras.Sequential([
    layers.Input((8, 8, 1)),
    layers.RandomTranslation(0.1, 0.1, fill_mode="constant"),
    layers.Conv2D(16, 3, padding="same", use_bias=False),
    layers.BatchNormalization(),
    layers.ReLU(),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
    layers.Flatten(),
    layers.Dropout(0.2),
    layers.Dense(10, activation="softmax"),
])
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=12, validation_data=(x_test, y_test), verbose=2)
print("test accuracy %.3f" % model.evaluate(x_test, y_test, verbose=0)[1])
