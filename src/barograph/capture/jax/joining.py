"""Joins the statistics of many tensors into few arrays inside the program, and splits them by rows.

Each array that a program returns is allocated, copied and fetched separately. On a device, this took longer than the
step for models with hundreds of tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of one tensor's statistics arrays, by name."""

_OF_UNITS = frozenset({"columns", "units"})
"""Statistics with one row per unit; others have one row per tensor."""


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the statistics of many tensors into few arrays.

    Returns:
        By name, the rows of all tensors with that statistic, in order.
    """
    names = dict.fromkeys(name for one in parts for name in one)
    return {name: (jnp.concatenate if name in _OF_UNITS else jnp.stack)([one[name] for one in parts if name in one])
            for name in names}


class Places:
    """The positions of tensors' statistics in the arrays of `joined`.

    Args:
        shapes: Shapes of each joined tensor, by its number, in order.

    Attributes:
        numbers: Numbers of the tensors, in order.
    """

    def __init__(self, shapes: Mapping[int, Shapes]) -> None:
        self.numbers = tuple(shapes)
        names = dict.fromkeys(name for one in shapes.values() for name in one)
        self._rows = {name: _rows(name, {number: one[name] for number, one in shapes.items() if name in one})
                      for name in names}

    def rows(self, name: str) -> Mapping[int, Any]:
        """Return the positions in the arrays of one name: a row, or the slice of its units, by tensor number."""
        return self._rows.get(name, {})


def _rows(name: str, shapes: Mapping[int, tuple[int, ...]]) -> Mapping[int, Any]:
    if name not in _OF_UNITS:
        return {number: row for row, number in enumerate(shapes)}
    ends = itertools.accumulate(shape[0] for shape in shapes.values())
    return {number: slice(end - shape[0], end) for (number, shape), end in zip(shapes.items(), ends, strict=True)}
