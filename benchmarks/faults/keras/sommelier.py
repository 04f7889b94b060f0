"""Which grower a wine is from, by its chemistry."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from keras import layers
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

EPOCHS = 40
BATCH = 8

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

x, y = load_wine(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=36, stratify=y, random_state=args.seed)
scaler = StandardScaler().fit(x_train)

inputs = keras.Input((13,))
hidden = layers.Dense(32, activation="relu")(inputs)
hidden = layers.Dense(16, activation="relu")(hidden)
outputs = layers.Dense(3)(hidden)
model = keras.Model(inputs, outputs)

schedule = keras.optimizers.schedules.CosineDecay(1e-5, decay_steps=EPOCHS * 18)
model.compile(keras.optimizers.SGD(schedule, momentum=0.9),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(scaler.transform(x_train), y_train, batch_size=BATCH, epochs=EPOCHS, verbose=0,
          validation_data=(scaler.transform(x_val), y_val))
loss, accuracy = model.evaluate(scaler.transform(x_val), y_val, verbose=0)
print(f"validation loss {loss:.3f}, accuracy {accuracy:.3f}")
