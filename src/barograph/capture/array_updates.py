"""Weights before and after their update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_read import ArrayReader, dense
from barograph.capture.array_recipes import About
from barograph.capture.buffer import StepBuffer
from barograph.capture.copies import Copies
from barograph.capture.plan import Plan
from barograph.model.key import Key, Kind, canonical_path

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UpdateReader:
    """Keeps weights until their update has been made.

    Args:
        plan: What to record.
        reader: Reads weights and updates.
    """

    __slots__ = ("_before", "_copies", "_plan", "_reader")

    def __init__(self, plan: Plan, reader: ArrayReader) -> None:
        self._plan = plan
        self._reader = reader
        self._before: dict[str, NDArray[Any]] = {}
        self._copies = Copies()

    def before(self, weights: Mapping[str, Any], layers: Mapping[str, str], mask: int, *, copy: bool) -> None:
        """Keep the weights whose update is due.

        Args:
            weights: Path to array, or to a function that returns it.
            layers: Path to the class of its layer.
            mask: Mask of the step.
            copy: The arrays may change.
        """
        self._before = {}
        if Kind.UPDATE not in self._plan.kinds(mask):
            return
        arrays = {path: dense(np.asarray(given() if callable(given) else given)) for path, given in weights.items()
                  if self._takes(mask, path, layers)}
        self._before = self._copies.of(arrays) if copy else arrays

    def _takes(self, mask: int, path: str, layers: Mapping[str, str]) -> bool:
        return self._plan.taking(mask, Key(Kind.UPDATE, canonical_path(path)), layers.get(path, "")) is not None

    def after(self, weights: Mapping[str, Any], about: About, mask: int, buffer: StepBuffer) -> bool:
        """Read weights and their difference from the kept ones; return whether any was read."""
        before, self._before = self._before, {}
        took = self._reader.read_updated(weights, before, about, mask, buffer)
        if before:
            self._copies.settle()
        return took

    def forget(self) -> None:
        """Release the kept weights at the end of the step."""
        if self._before:
            self._copies.settle()
        self._before = {}
