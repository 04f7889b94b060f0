"""Cached recipes for reading arrays: what to record of each, and in which row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.plan import Taking
from barograph.measures import native
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.records import Subject

if TYPE_CHECKING:
    from barograph.capture.session import Session

WITH_UNITS = frozenset({Kind.OUTPUT, Kind.INPUT, Kind.BATCH, Kind.TARGET})
"""Kinds with units."""


@dataclass(frozen=True, slots=True)
class About:
    """Metadata of arrays.

    Attributes:
        layers: Path to the class of the array's layer.
        wholes: Path to the number of elements of the whole tensor, if the array is this process's part of it.
        unit_axis: Axis of the units of a layer's output.
    """

    layers: Mapping[str, str]
    wholes: Mapping[str, int]
    unit_axis: int = -1


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an array was last read.

    Attributes:
        key: Key of its record.
        taking: Statistics to record; None: none.
        dtype: Its element type then.
        code: Code of the type in native calls.
        row: Row of its statistics.
        histogram: Histogram mode in native calls.
        asks_for_more: Units or whole elements are requested, not only statistics.
    """

    key: Key
    taking: Taking | None
    dtype: np.dtype[Any] | None = None
    code: int = 0
    row: int = 0
    histogram: int = 0
    asks_for_more: bool = False


class Recipes:
    """The recipes for arrays of one kind under one mask, by path.

    Args:
        session: Its plan determines what to record.
        kind: Kind of the arrays.
        mask: What to record.
    """

    def __init__(self, session: Session, kind: Kind, mask: int) -> None:
        self._session = session
        self._kind = kind
        self._mask = mask
        self._known: dict[str, Recipe] = {}

    def of(self, path: str, about: About) -> Recipe:
        """Return the recipe of an array, with any type."""
        found = self._known.get(path)
        if found is None:
            key = Key(self._kind, canonical_path(path))
            taking = self._session.plan.taking(self._mask, key, about.layers.get(path, ""))
            found = self._known[path] = Recipe(key, taking)
        return found

    def of_type(self, path: str, dtype: np.dtype[Any], about: About) -> Recipe:
        """Return the recipe of an array with elements of this type."""
        found = self.of(path, about)
        if found.taking is not None and (found.dtype is None or found.dtype != dtype):
            found = self._known[path] = self._recipe(found.key, found.taking, path, dtype, about)
        return found

    def _recipe(self, key: Key, taking: Taking, path: str, dtype: np.dtype[Any], about: About) -> Recipe:
        whole = about.wholes.get(path, 0)
        row = self._session.output.table.row(Subject(key, about.layers.get(path, ""), dtype.name, whole > 0, whole))
        return Recipe(key, taking, dtype, native.dtype_code(dtype.name), row, int(taking.histogram),
                      taking.raw or (taking.units and self._kind in WITH_UNITS))
