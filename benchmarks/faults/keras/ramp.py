"""A residual network with warm-up, cosine decay and bfloat16."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

EPOCHS, BATCH = 15, 32

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

x, y = load_digits(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(x / 16, y, test_size=497, random_state=args.seed)


def block(h, width):
    z = layers.LayerNormalization()(h)
    z = layers.Dense(2 * width, activation="gelu")(z)
    z = layers.Dropout(0.1)(z)
    return layers.Add()([h, layers.Dense(width)(z)])


inputs = keras.Input((64,))
h = layers.Dense(48)(inputs)
for _ in range(3):
    h = block(h, 48)
outputs = layers.Dense(10, activation="softmax", dtype="float32")(layers.LayerNormalization()(h))
model = keras.Model(inputs, outputs)
schedule = keras.optimizers.schedules.CosineDecay(0.0, decay_steps=EPOCHS * 41 - 80, warmup_target=2e-3, warmup_steps=80)
model.compile(keras.optimizers.AdamW(schedule, weight_decay=0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=BATCH, epochs=EPOCHS, validation_data=(x_val, y_val), verbose=2)
print("validation accuracy %.3f" % model.evaluate(x_val, y_val, verbose=0)[1])
