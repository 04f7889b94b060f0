"""The suite of every integration, for libraries of JAX: Flax NNX, Flax Linen and Equinox.

Steps are compiled once for all of it, outside of `train`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

for name in ("jax", "optax", "flax", "equinox"):
    pytest.importorskip(name, reason=f"{name} is not installed")

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import optax  # noqa: E402
from flax import linen, nnx  # noqa: E402
from flax.training.train_state import TrainState  # noqa: E402

import barograph.jax  # noqa: E402
from barograph.testing.frameworks import FrameworkConformance, Task  # noqa: E402

_WITH_STATE = "gradients are accumulated by a `scan` in the step, which the suite of Optax tries"


def _loss(answers: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(answers, labels).mean()


def _drive(
    task: Task, run: Any, step: Callable[..., Any], evaluate: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any], list[tuple[Any, Any, bool]]]:
    """Return the step and the evaluation, observed where there is a recording, and what each step is fed, with whether
    an evaluation follows."""
    rng = np.random.default_rng(task.seed)
    fed = []
    for number in range(task.steps):
        x = rng.normal(size=(16, 8)).astype(np.float32)
        y = (x[:, 0] > 0).astype(np.int32)
        if number == task.nan_at:
            x[0, 0] = np.nan
        fed.append((x, y, bool(task.evaluate_every) and (number + 1) % task.evaluate_every == 0))
    if run is None:
        return step, evaluate, fed
    return barograph.jax.observe(step), barograph.jax.observe(evaluate, evaluation=True), fed


class _Block(nnx.Module):  # type: ignore[misc]
    """Dense, and without what draws or remembers: those are tried beside the suite."""

    def __init__(self, rngs: Any) -> None:
        self.hidden, self.out = nnx.Linear(8, 12, rngs=rngs), nnx.Linear(12, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.out(nnx.relu(self.hidden(x)))


@nnx.jit
def _nnx_step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
    loss, gradients = nnx.value_and_grad(lambda net: _loss(net(x), y))(net)
    optimizer.update(net, gradients)
    return loss


@nnx.jit
def _nnx_evaluation(net: Any, x: Any, y: Any) -> Any:
    return _loss(net(x), y)


class TestNNX(FrameworkConformance):
    framework = "flax"
    without_accumulation = _WITH_STATE

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        step, evaluate, fed = _drive(task, run, _nnx_step, _nnx_evaluation)
        net = _Block(nnx.Rngs(task.seed))
        optimizer = nnx.Optimizer(net, _adam(), wrt=nnx.Param)
        for x, y, evaluates in fed:
            float(step(net, optimizer, x, y))
            if evaluates:
                evaluate(net, x, y)
        return {f"{layer}.{leaf}": np.asarray(getattr(getattr(net, layer), leaf)[...])
                for layer in ("hidden", "out") for leaf in ("kernel", "bias")}


@functools.cache
def _adam() -> Any:
    """Return one optimizer for all: a step is compiled anew for another."""
    return optax.adam(1e-2)


class _Net(linen.Module):  # type: ignore[misc]
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(2, name="out")(linen.relu(linen.Dense(12, name="hidden")(x)))


_NET = _Net()


@jax.jit
def _linen_step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
    loss, gradients = jax.value_and_grad(lambda params: _loss(state.apply_fn({"params": params}, x), y))(state.params)
    return state.apply_gradients(grads=gradients), {"loss": loss}


@jax.jit
def _linen_evaluation(state: Any, x: Any, y: Any) -> Any:
    return _loss(state.apply_fn({"params": state.params}, x), y)


_APPLY = _NET.apply


class TestLinen(FrameworkConformance):
    framework = "flax"
    without_accumulation = _WITH_STATE

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        step, evaluate, fed = _drive(task, run, _linen_step, _linen_evaluation)
        params = _NET.init(jax.random.key(task.seed), np.zeros((1, 8), np.float32))["params"]
        state = TrainState.create(apply_fn=_APPLY, params=params, tx=_adam())
        for x, y, evaluates in fed:
            state, metrics = step(state, x, y)
            float(metrics["loss"])
            if evaluates:
                evaluate(state, x, y)
        return {f"{layer}.{leaf}": np.asarray(value) for layer, leaves in state.params.items()
                for leaf, value in leaves.items()}


@eqx.filter_jit
def _equinox_step(net: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    loss, gradients = eqx.filter_value_and_grad(lambda net: _loss(jax.vmap(net)(x), y))(net)
    updates, state = _adam().update(gradients, state, eqx.filter(net, eqx.is_inexact_array))
    return eqx.apply_updates(net, updates), state, loss


@eqx.filter_jit
def _equinox_evaluation(net: Any, x: Any, y: Any) -> Any:
    return _loss(jax.vmap(net)(x), y)


class TestEquinox(FrameworkConformance):
    framework = "equinox"
    without_accumulation = _WITH_STATE

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        step, evaluate, fed = _drive(task, run, _equinox_step, _equinox_evaluation)
        net = eqx.nn.MLP(8, 2, 12, 1, key=jax.random.key(task.seed))
        state = _adam().init(eqx.filter(net, eqx.is_inexact_array))
        for x, y, evaluates in fed:
            net, state, loss = step(net, state, x, y)
            float(loss)
            if evaluates:
                evaluate(net, x, y)
        return {f"layers.{number}.{leaf}": np.asarray(getattr(layer, leaf))
                for number, layer in enumerate(net.layers) for leaf in ("weight", "bias")}
