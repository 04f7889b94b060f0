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
"""Of the statistics of one tensor: the shape of each array of them, by its name."""

_OF_UNITS = frozenset({"columns", "units"})
"""What has a row for each unit of a tensor, as many as it has; of anything else a tensor has one row."""


def joined(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the statistics of many tensors into few arrays.

    Returns:
        Under each name that there is, the rows of all tensors that have it, in their order.
    """
    names = dict.fromkeys(name for one in told for name in one)
    return {name: (jnp.concatenate if name in _OF_UNITS else jnp.stack)([one[name] for one in told if name in one])
            for name in names}


class Places:
    """The positions of tensors' statistics in the arrays of `joined`.

    Args:
        shapes: Of each such tensor, by its number, in the order in which they are put together.

    Attributes:
        numbers: Of the tensors, in that order.
    """

    def __init__(self, shapes: Mapping[int, Shapes]) -> None:
        self.numbers = tuple(shapes)
        names = dict.fromkeys(name for one in shapes.values() for name in one)
        self._rows = {name: _rows(name, {number: one[name] for number, one in shapes.items() if name in one})
                      for name in names}

    def rows(self, name: str) -> Mapping[int, Any]:
        """Return where the arrays of one name lie: by the number of a tensor its row, or the slice of its units."""
        return self._rows.get(name, {})


def _rows(name: str, shapes: Mapping[int, tuple[int, ...]]) -> Mapping[int, Any]:
    if name not in _OF_UNITS:
        return {number: row for row, number in enumerate(shapes)}
    ends = itertools.accumulate(shape[0] for shape in shapes.values())
    return {number: slice(end - shape[0], end) for (number, shape), end in zip(shapes.items(), ends, strict=True)}
