"""Copies of weights from before a step, in reused memory: allocating costs as much as copying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.measures import native

KEPT_BYTES = 64 * 2**20
"""Maximum memory of copies kept between two recorded steps: fetching new memory takes longer than copying."""


class Copies:
    """The copies of one training's weights, by path."""

    def __init__(self) -> None:
        self._copies: dict[str, NDArray[Any]] = {}

    def of(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return copies in the arrays' memory layout, valid until the next call for the same paths.

        Args:
            arrays: Dense arrays by path, with any order of axes.
        """
        copies = {path: self._room(path, array) for path, array in arrays.items()}
        places = [(copies[path].__array_interface__["data"][0], array.__array_interface__["data"][0], array.nbytes)
                  for path, array in arrays.items()]
        if places:
            native.copy_many(*(np.array(column, np.int64) for column in zip(*places, strict=True)))
        return copies

    def _room(self, path: str, array: NDArray[Any]) -> NDArray[Any]:
        copy = self._copies.get(path)
        if copy is None or (copy.shape, copy.strides, copy.dtype) != (array.shape, array.strides, array.dtype):
            copy = self._copies[path] = np.empty_like(array)
        return copy

    def settle(self) -> None:
        """Release all copies until the next step, unless they are small."""
        if sum(copy.nbytes for copy in self._copies.values()) > KEPT_BYTES:
            self._copies.clear()
