"""The loss and the metrics among what a step of JAX returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from barograph.capture.jax.names import scalars_of


def numbers_in(found: Any, steps: int, loss: Callable[[Any], Any] | None) -> tuple[Any, dict[str, Any]]:
    """Return the loss, None where there is none, and the metrics by name.

    Args:
        found: What the step returned.
        steps: How many it has made: then each has that many values.
        loss: Finds the loss; None: it is looked for.
    """
    if loss is not None:
        return loss(found), {}
    shape = (steps,) if steps > 1 else ()
    numbers: dict[str, Any] = {}
    for part in found if isinstance(found, tuple | list) else (found,):
        for name, leaf in scalars_of(part, shape).items():
            numbers.setdefault(name, leaf)
    first = next((name for name in ("loss", "", *numbers) if name in numbers), None)
    of_loss = None if first is None else numbers.pop(first)
    return of_loss, {name: leaf for name, leaf in numbers.items() if name}


def losses_in(found: Any, steps: int, loss: Callable[[Any], Any] | None) -> list[float]:
    """Return the loss of each step; none where there is none. Waits for the device."""
    losses, _ = numbers_in(found, steps, loss)
    return [] if losses is None else [float(number_of(losses, step, steps)) for step in range(steps)]


def number_of(values: Any, step: int, steps: int) -> float:
    """Return the number of one step of several that a call has made."""
    array = np.asarray(values)
    return float(array[step] if steps > 1 and array.ndim else array.mean())
