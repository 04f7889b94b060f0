"""Finds the learning rate of an Optax optimizer if its state does not contain it.

`optax.adam(1e-3)` is a chain of functions, the last of which has the rate in its closure. The closures are read:
`scale` has a number, and `scale_by_schedule` has a function of its step count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

_DEPTH = 12
_MOST_FUNCTIONS = 500

_SCALE, _BY_SCHEDULE, _MOMENTUM = "scale.", "scale_by_schedule.", "trace."
_ADAMS = ("scale_by_adam.", "scale_by_amsgrad.", "scale_by_adamax.", "scale_by_lion.", "scale_by_belief.",
          "scale_by_adan.", "scale_by_yogi.", "scale_by_radam.")
_GROUPS = ("partition.", "multi_transform.")
_PASSES_ON = ("chain.", "named_chain.", "with_extra_args_support.", "identity.", "init_empty_state", "stateless.",
              "stateless_with_tree_map.")


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Hyperparameters found in the construction of an optimizer.

    Attributes:
        rate: Learning rate: a number, or a traced array; None: unknown.
        momentum: Momentum of SGD, or the first beta of Adam and similar; 0: none. None: unknown.
    """

    rate: Any = None
    momentum: float | None = None


def hyperparameters(update: Callable[..., Any], state: Any) -> Hyperparameters:
    """Return the hyperparameters in an optimizer's `update`.

    Groups with different rates (`multi_transform`) and optimizers with unknown functions have no rate here.

    Args:
        update: Field of `GradientTransformation`.
        state: Its state, whose counts give the position of a schedule.
    """
    functions = list(_functions(update))
    rate: Any = None
    counts = iter(_counts(state))
    runs: list[list[Any]] = [[]]
    for function in functions:
        name, cells = _name(function), _cells(function)
        if name.startswith(_SCALE) and "step_size" in cells:
            runs[-1].append(cells["step_size"])
        elif name.startswith(_BY_SCHEDULE) and "step_size_fn" in cells:
            count = next(counts, None)
            if count is None:
                return Hyperparameters(None, _momentum(functions))
            runs[-1].append(cells["step_size_fn"](count))
        elif not name.startswith(_PASSES_ON):
            runs.append([])
    factors: list[Any] = next((run for run in reversed(runs) if run), [])
    # A sign alone is not a rate: earlier transformations determine the size (Adafactor, line searches).
    turned = all(_plain(factor) in (1.0, -1.0) for factor in factors)
    if not turned and not any(_name(function).startswith(_GROUPS) for function in functions):
        product = functools.reduce(lambda one, other: one * other, factors)
        rate = jnp.abs(jnp.asarray(product, jnp.float32)) if jnp.ndim(product) == 0 else None
    return Hyperparameters(rate, _momentum(functions))


def _momentum(functions: list[Any]) -> float | None:
    for function in functions:
        name, cells = _name(function), _cells(function)
        if name.startswith(_MOMENTUM) and "decay" in cells:
            return _plain(cells["decay"])
        if name.startswith(_ADAMS) and "b1" in cells:
            return _plain(cells["b1"])
    known = any(_name(function).startswith((_SCALE, _BY_SCHEDULE)) for function in functions)
    others = any(_name(function).startswith("scale_by_") and not _name(function).startswith(_BY_SCHEDULE)
                 for function in functions)
    return 0.0 if known and not others else None


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _functions(update: Any) -> Iterator[Any]:
    """Yield the Optax functions of an optimizer, in call order."""
    seen: set[int] = set()

    def within(value: Any, depth: int) -> Iterator[Any]:
        if depth > _DEPTH or id(value) in seen or len(seen) > _MOST_FUNCTIONS:
            return
        if isinstance(value, list | tuple):
            for item in value:
                yield from within(item, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                yield from within(item, depth + 1)
        elif isinstance(value, functools.partial):
            yield from within(value.func, depth + 1)
        elif callable(value) and str(getattr(value, "__module__", "")).startswith("optax"):
            seen.add(id(value))
            yield value
            if _name(value).startswith(_BY_SCHEDULE):
                return  # parts of a schedule are not part of the update
            for cell in _cells(value).values():
                yield from within(cell, depth + 1)

    yield from within(update, 0)


def _cells(function: Any) -> dict[str, Any]:
    """Return the closure of a function by name, without `init` functions, which say nothing about the update."""
    code, closure = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or closure is None:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, closure, strict=True):
        if name.startswith("init"):
            continue
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # empty cell
    return found


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", ""))


def _counts(state: Any) -> list[Any]:
    """Return how many steps each schedule within an optimizer's state has made, in order."""
    nodes = jax.tree.leaves(state, is_leaf=_is_of_schedule)
    return [node.count for node in nodes if _is_of_schedule(node)]


def _is_of_schedule(node: Any) -> bool:
    return type(node).__name__ == "ScaleByScheduleState"
