"""Measures steps of JAX in this process: a `jax.jit` step over trees with Optax, or one of Flax NNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import barograph.jax
from benchmarks.blocks import block_of
from benchmarks.processes import Request, Result, answer_request
from benchmarks.recorded_steps import attached, measured


def measure(request: Request) -> Result:
    """Return the blocks of steps, and the number of steps with recorded tensors."""
    model, tx, x, y = {"resnet": _resnet, "gpt": _gpt}[request["workload"]]()
    step = {"jit": _plain_step, "nnx": _nnx_step}[request["how"]](model, tx)
    # The user's own program, which `observe` does not change, created without hooks.
    jax.block_until_ready(step(_users_own, x, y))
    run = attached(request)
    bare = block_of(lambda: jax.block_until_ready(step(_users_own, x, y)))
    recorded = block_of(lambda: jax.block_until_ready(step(_as_it_is, x, y)))
    return measured(request, run, bare, recorded)


def _users_own(step: Any) -> Callable[..., Any]:
    own: Callable[..., Any] = step.__wrapped__
    return own


def _as_it_is(step: Callable[..., Any]) -> Callable[..., Any]:
    return step


def _loss(model: Any, x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def _plain_step(model: Any, tx: Any) -> Callable[..., Any]:
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    params, rest = nnx.to_pure_dict(params), nnx.to_pure_dict(rest)
    shapes = nnx.split(model, nnx.Param, ...)[1:]

    def loss_of(params: Any, rest: Any, x: Any, y: Any) -> tuple[Any, Any]:
        states = [nnx.clone(shape) for shape in shapes]
        for state, values in zip(states, (params, rest), strict=True):
            nnx.replace_by_pure_dict(state, values)
        whole = nnx.merge(graph, *states)
        loss = _loss(whole, x, y)
        return loss, nnx.to_pure_dict(nnx.split(whole, nnx.Param, ...)[2])

    @barograph.jax.observe
    @jax.jit
    def step(params: Any, opt_state: Any, rest: Any, x: Any, y: Any) -> Any:
        (loss, rest), grads = jax.value_and_grad(loss_of, has_aux=True)(params, rest, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, rest, loss

    state = [params, tx.init(params), rest]

    def made(of: Callable[..., Any], x: Any, y: Any) -> Any:
        *state[:], loss = of(step)(*state, x, y)
        return loss

    return made


def _nnx_step(model: Any, tx: Any) -> Callable[..., Any]:
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)

    @barograph.jax.observe
    @nnx.jit
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        loss, grads = nnx.value_and_grad(_loss)(model, x, y)
        optimizer.update(model, grads)
        return loss

    return lambda of, x, y: of(step)(model, optimizer, x, y)


class _Block(nnx.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(inside, outside, (3, 3), stride, use_bias=False, rngs=rngs)
        self.conv2 = nnx.Conv(outside, outside, (3, 3), use_bias=False, rngs=rngs)
        self.norm1, self.norm2 = nnx.BatchNorm(outside, rngs=rngs), nnx.BatchNorm(outside, rngs=rngs)
        self.shorten = nnx.Conv(inside, outside, (1, 1), stride, use_bias=False, rngs=rngs) if stride > 1 else None

    def __call__(self, x: Any) -> Any:
        inner = self.norm2(self.conv2(nnx.relu(self.norm1(self.conv1(x)))))
        return nnx.relu(inner + (x if self.shorten is None else self.shorten(x)))


class _ResNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem, self.norm = nnx.Conv(3, 64, (3, 3), use_bias=False, rngs=rngs), nnx.BatchNorm(64, rngs=rngs)
        sizes = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
                 (512, 512, 1))
        self.blocks = nnx.List([_Block(*size, rngs=rngs) for size in sizes])
        self.head = nnx.Linear(512, 10, rngs=rngs)

    def __call__(self, images: Any) -> Any:
        h = nnx.relu(self.norm(self.stem(images)))
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean((1, 2)))


class _Decoder(nnx.Module):
    """Causal attention, then a feed-forward layer four times as wide; both around a shortcut."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1, self.norm2 = nnx.LayerNorm(256, rngs=rngs), nnx.LayerNorm(256, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(8, 256, decode=False, rngs=rngs)
        self.widen, self.narrow = nnx.Linear(256, 1024, rngs=rngs), nnx.Linear(1024, 256, rngs=rngs)

    def __call__(self, h: Any) -> Any:
        h = h + self.attend(self.norm1(h), mask=nnx.make_causal_mask(jnp.ones(h.shape[:2])))
        return h + self.narrow(nnx.gelu(self.widen(self.norm2(h))))


class _GPT(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens, self.places = nnx.Embed(2048, 256, rngs=rngs), nnx.Embed(128, 256, rngs=rngs)
        self.blocks = nnx.List([_Decoder(rngs) for _ in range(6)])
        self.norm, self.head = nnx.LayerNorm(256, rngs=rngs), nnx.Linear(256, 2048, use_bias=False, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        h = self.tokens(tokens) + self.places(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def _resnet() -> tuple[Any, Any, Any, Any]:
    """ResNet-18 for 32×32 images, batch 10, SGD with momentum."""
    first, second = jax.random.split(jax.random.key(0))
    return (_ResNet(nnx.Rngs(0)), optax.sgd(0.01, momentum=0.9), jax.random.normal(first, (10, 32, 32, 3)),
            jax.random.randint(second, (10,), 0, 10))


def _gpt() -> tuple[Any, Any, Any, Any]:
    """Six blocks 256 wide, 4 × 128 tokens, AdamW."""
    first, second = jax.random.split(jax.random.key(0))
    return (_GPT(nnx.Rngs(0)), optax.adamw(3e-4), jax.random.randint(first, (4, 128), 0, 2048),
            jax.random.randint(second, (4, 128), 0, 2048))


if __name__ == "__main__":
    answer_request(measure)
