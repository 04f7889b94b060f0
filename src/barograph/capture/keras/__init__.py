"""How a Keras or TensorFlow training is recorded, and its failing steps held."""
