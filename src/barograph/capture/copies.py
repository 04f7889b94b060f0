"""Copies of weights from before a step, in memory that is used again: to have it anew costs as much as the copying."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT_BYTES = 64 * 2**20
"""Most that copies may take between two recorded steps; to have little memory anew costs more than to copy."""


class Copies:
    """Those of one training's weights, by path."""

    def __init__(self) -> None:
        self._copies: dict[str, NDArray[Any]] = {}

    def of(self, path: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy, elements lying as in `array`; it holds until the next is asked for under this path."""
        copy = self._copies.get(path)
        if copy is None or (copy.shape, copy.strides, copy.dtype) != (array.shape, array.strides, array.dtype):
            copy = self._copies[path] = np.empty_like(array)
        np.copyto(copy, array)
        return copy

    def settle(self) -> None:
        """Let go of all, unless they are small: none is needed until the next step."""
        if sum(copy.nbytes for copy in self._copies.values()) > KEPT_BYTES:
            self._copies.clear()
