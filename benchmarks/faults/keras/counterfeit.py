"""Two networks against each other over wines: a generator and its judge."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

LATENT = 8


class GAN(keras.Model):
    def __init__(self, generator, critic):
        super().__init__()
        self.generator, self.critic = generator, critic
        self.critic_loss, self.generator_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")
        self.noise = keras.random.SeedGenerator(7)

    def compile(self, critic_optimizer, generator_optimizer, loss):
        super().compile()
        self.critic_optimizer, self.generator_optimizer, self.loss_fn = critic_optimizer, generator_optimizer, loss

    @property
    def metrics(self):
        return [self.critic_loss, self.generator_loss]

    def train_step(self, real):
        size = tf.shape(real)[0]
        fake = self.generator(keras.random.normal((size, LATENT), seed=self.noise))
        both = tf.concat([fake, real], 0)
        labels = tf.concat([tf.zeros((size, 1)), 0.9 * tf.ones((size, 1))], 0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.critic(both))
        grads = tape.gradient(d_loss, self.critic.trainable_weights)
        self.critic_optimizer.apply_gradients(zip(grads, self.critic.trainable_weights))
        with tf.GradientTape() as tape:
            answers = self.critic(self.generator(keras.random.normal((size, LATENT), seed=self.noise)))
            g_loss = self.loss_fn(tf.ones((size, 1)), answers)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.generator_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.critic_loss.update_state(d_loss)
        self.generator_loss.update_state(g_loss)
        return {"d_loss": self.critic_loss.result(), "g_loss": self.generator_loss.result()}


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)
wine = StandardScaler().fit_transform(load_wine().data).astype("float32")
generator = keras.Sequential([layers.Input((LATENT,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(13)])
critic = keras.Sequential([layers.Input((13,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(1)])
gan = GAN(generator, critic)
gan.compile(keras.optimizers.Adam(5e-4, beta_1=0.5), keras.optimizers.Adam(5e-4, beta_1=0.5),
            keras.losses.BinaryCrossentropy(from_logits=True))
history = gan.fit(tf.data.Dataset.from_tensor_slices(wine).shuffle(178).batch(32, drop_remainder=True), epochs=120, verbose=0)
print(f"critic {history.history['d_loss'][-1]:.3f}, generator {history.history['g_loss'][-1]:.3f}")
