"""A variational autoencoder of digits."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf
from keras import layers, ops
from sklearn.datasets import load_digits


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.random = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + ops.exp(0.5 * log_variance) * keras.random.normal(ops.shape(mean), seed=self.random)


class VAE(keras.Model):
    def __init__(self, latent=6):
        super().__init__()
        inputs = keras.Input((64,))
        h = layers.Dense(64, activation="relu")(inputs)
        mean, log_variance = layers.Dense(latent)(h), layers.Dense(latent)(h)
        self.encoder = keras.Model(inputs, [mean, log_variance, Sampling()([mean, log_variance])])
        self.decoder = keras.Sequential([layers.Input((latent,)), layers.Dense(64, activation="relu"),
                                         layers.Dense(64, activation="sigmoid")])
        self.trackers = [keras.metrics.Mean(name=name) for name in ("loss", "reconstruction", "kl")]

    @property
    def metrics(self):
        return self.trackers

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_variance, z = self.encoder(data, training=True)
            picture = self.decoder(z, training=True)
            reconstruction = ops.mean(ops.sum(keras.losses.binary_crossentropy(data[..., None], picture[..., None]), axis=1))
            kl = ops.mean(ops.sum(-0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance)), axis=1))
            loss = reconstruction + kl
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        for tracker, value in zip(self.trackers, (loss, reconstruction, kl)):
            tracker.update_state(value)
        return {tracker.name: tracker.result() for tracker in self.trackers}


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
x = (load_digits().data / 16).astype("float32")
vae = VAE()
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
history = vae.fit(x, epochs=20, batch_size=64, verbose=2)
print(f"loss {history.history['loss'][0]:.2f} -> {history.history['loss'][-1]:.2f}")
