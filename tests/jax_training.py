"""Small trainings in JAX, written as people write them, each with and without us."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import barograph.jax

# The suite compiles the same programs again and again.
_CACHE = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
jax.config.update("jax_compilation_cache_dir", _CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

Wrap = Callable[[Any], Any]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def same(function: Any) -> Any:
    """Return a step as it is: a training without us."""
    return function


def weights(seed: int = 0) -> dict[str, Any]:
    first, second = jax.random.split(jax.random.key(seed))
    return {"hidden": {"kernel": jax.random.normal(first, (8, 16)) * 0.3, "bias": jnp.zeros(16)},
            "out": {"kernel": jax.random.normal(second, (16, 2)) * 0.3}}


def loss_of(params: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    scores = barograph.jax.record("relu", hidden, layer="ReLU") @ params["out"]["kernel"]
    barograph.jax.predictions(y, scores)
    return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()


def step_with(tx: Any) -> Callable[..., Any]:
    def step(params: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    return step


def train_plain(wrap: Wrap, steps: int = 6, *, donate: tuple[int, ...] = (), tx: Any = None,
                batches: Mapping[int, Any] | None = None) -> tuple[Any, list[float]]:
    """Train with Optax; `batches`: other data at some steps."""
    tx = tx or optax.adam(1e-2)
    params = weights()
    state, step, losses = tx.init(params), wrap(jax.jit(step_with(tx), donate_argnums=donate)), []
    for number in range(steps):
        params, state, loss = step(params, state, (batches or {}).get(number, X), Y)
        losses.append(float(loss))
    return params, losses


def train_scan(wrap: Wrap, calls: int = 2, turns: int = 4, batches: Any = None, tx: Any = None
               ) -> tuple[Any, list[float]]:
    """Train several steps in one call."""
    tx = tx or optax.adam(1e-2)
    one = step_with(tx)

    def turn(carry: Any, batch: Any) -> tuple[Any, Any]:
        params, state, loss = one(*carry, *batch)
        return (params, state), loss

    params = weights()
    carry, losses = (params, tx.init(params)), []
    many = wrap(jax.jit(lambda carry, batches: jax.lax.scan(turn, carry, batches)))
    for _ in range(calls):
        carry, loss = many(carry, batches if batches is not None else (np.stack([X] * turns), np.stack([Y] * turns)))
        losses += np.asarray(loss).tolist()
    return carry[0], losses


def train_nnx(wrap: Wrap, steps: int = 6, tx: Any = None) -> tuple[Any, list[float]]:
    from flax import nnx

    class Block(nnx.Module):  # type: ignore[misc]
        def __init__(self, rngs: Any) -> None:
            self.fc, self.norm = nnx.Linear(8, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return nnx.relu(self.norm(self.fc(x)))

    class Net(nnx.Module):  # type: ignore[misc]
        def __init__(self, rngs: Any) -> None:
            self.blocks = nnx.List([Block(rngs), Block(rngs)])
            self.drop, self.out = nnx.Dropout(0.1, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.out(self.drop(x))

    net = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, tx or optax.adamw(1e-2), wrt=nnx.Param)

    @wrap
    @nnx.jit
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss_of(net: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

        loss, gradients = nnx.value_and_grad(loss_of)(net)
        optimizer.update(net, gradients)
        return loss

    losses = [float(step(net, optimizer, X, Y)) for _ in range(steps)]
    return nnx.to_pure_dict(nnx.state(net, nnx.Param)), losses


def train_linen(wrap: Wrap, steps: int = 6, tx: Any = None) -> tuple[Any, list[float]]:
    from flax import linen as nn
    from flax.training.train_state import TrainState

    class Net(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(2, name="out")(nn.relu(nn.Dense(16, name="hidden")(x)))

    net = Net()
    state = TrainState.create(apply_fn=net.apply, params=net.init(jax.random.key(0), X)["params"],
                              tx=tx or optax.adam(1e-2))

    @wrap
    @jax.jit
    def step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        def loss_of(params: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(state.apply_fn({"params": params}, x), y).mean()

        loss, gradients = jax.value_and_grad(loss_of)(state.params)
        return state.apply_gradients(grads=gradients), {"loss": loss, "accuracy": loss * 0 + 0.5}

    losses = []
    for _ in range(steps):
        state, metrics = step(state, X, Y)
        losses.append(float(metrics["loss"]))
    return state.params, losses


def train_equinox(wrap: Wrap, steps: int = 6, tx: Any = None) -> tuple[Any, list[float]]:
    import equinox as eqx

    net = eqx.nn.MLP(8, 2, 16, 1, key=jax.random.key(0))
    tx = tx or optax.adam(1e-2)
    state = tx.init(eqx.filter(net, eqx.is_inexact_array))

    @wrap
    @eqx.filter_jit
    def step(net: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        def loss_of(net: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

        loss, gradients = eqx.filter_value_and_grad(loss_of)(net)
        updates, state = tx.update(gradients, state, eqx.filter(net, eqx.is_inexact_array))
        return eqx.apply_updates(net, updates), state, loss

    losses = []
    for _ in range(steps):
        net, state, loss = step(net, state, X, Y)
        losses.append(float(loss))
    return eqx.filter(net, eqx.is_array), losses


def train_pmap(wrap: Wrap, steps: int = 4, tx: Any = None) -> tuple[Any, list[float]]:
    tx = tx or optax.adam(1e-2)
    devices = jax.local_device_count()

    def one(params: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = tx.update(jax.lax.pmean(gradients, "i"), state, params)
        return optax.apply_updates(params, updates), state, jax.lax.pmean(loss, "i")

    params = weights()
    params, state = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * devices), (params, tx.init(params)))
    step, losses = wrap(jax.pmap(one, axis_name="i")), []
    for _ in range(steps):
        params, state, loss = step(params, state, X.reshape(devices, -1, 8), Y.reshape(devices, -1))
        losses.append(float(loss[0]))
    return params, losses
