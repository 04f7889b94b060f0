"""Finds the loss and the metrics in the results of a JAX step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from barograph.capture.jax.names import scalars_of
from barograph.capture.returned import loss_among


def numbers_in(found: Any, steps: int, loss: Callable[[Any], Any] | None, *, mapped: bool = False
               ) -> tuple[Any, dict[str, Any]]:
    """Return the loss (None if there is none), and the metrics by name.

    Args:
        found: Results of the step.
        steps: Number of steps in the call: each number has that many values.
        loss: Finds the loss; None: search.
        mapped: It ran under `pmap`: results have an axis of devices.
    """
    if loss is not None:
        return loss(found), {}
    shape = (steps,) if steps > 1 else ()
    if mapped:
        shape = (jax.tree.leaves(found)[0].shape[0], *shape)
    numbers: dict[str, Any] = {}
    for prefix, part in _parts(found):
        for name, leaf in scalars_of(part, shape).items():
            numbers.setdefault(".".join(filter(None, (prefix, name))), leaf)
    known = loss_among(numbers)
    first = known if known is not None else next(iter(numbers), None)
    of_loss = None if first is None else numbers.pop(first)
    return of_loss, {name: leaf for name, leaf in numbers.items() if name}


def _parts(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the top-level parts of a step's results with their names: mostly state and numbers."""
    if isinstance(found, tuple | list):
        yield from (("", part) for part in found)
    elif isinstance(found, Mapping):
        # JAX has sorted them: among equals the last is the first, as within a part.
        yield from ((str(name), found[name]) for name in reversed(list(found)))
    else:
        yield "", found


def losses_in(found: Any, steps: int, loss: Callable[[Any], Any] | None, *, mapped: bool = False) -> list[float]:
    """Return the loss of each step; empty if there is none. Waits for the device."""
    losses, _ = numbers_in(found, steps, loss, mapped=mapped)
    return [] if losses is None else [float(number_of(losses, step, steps)) for step in range(steps)]


def number_of(values: Any, step: int, steps: int) -> float:
    """Return the number of one of a call's steps; the mean over devices."""
    array = np.asarray(values)
    return float(array[..., step].mean() if steps > 1 and array.ndim else array.mean())
