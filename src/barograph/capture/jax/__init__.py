"""How a JAX training is recorded, and its failing steps held."""
