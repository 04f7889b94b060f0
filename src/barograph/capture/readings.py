"""Statistics read during a step, for arrays that do not live until its end.

They are kept separately until the step has succeeded, and discarded if it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_read import ArrayReader, address_of, merge_reduced, read_more
from barograph.capture.array_recipes import About, Recipe
from barograph.capture.buffer import StepBuffer
from barograph.measures import native
from barograph.model.key import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.seen import Seen

_ROOM = 256
"""Initial capacity in rows; the system does not allocate memory that is not written to."""


class Readings:
    """The readings of one call of a step or an evaluation.

    Args:
        reader: Reads arrays.
        mask: What to record.
        buffer: Buffer of the current step or evaluation; not written to.
    """

    def __init__(self, reader: ArrayReader, mask: int, buffer: StepBuffer) -> None:
        self._reader = reader
        self._mask = mask
        self._buffer = buffer
        self._recipes: dict[Kind, dict[str, Recipe]] = {}
        # Its rows are consecutive readings, not rows of the table.
        self._read = StepBuffer()
        self._room = self._count = 0
        self._moments: NDArray[np.float64] | None = None
        self._exponents: NDArray[np.int64] | None = None
        # Units by row of the table, and whole tensors.
        self._more = StepBuffer()
        self._values: list[tuple[Recipe, int]] = []
        self._single_values: dict[int, tuple[Recipe, int]] = {}

    def recipe(self, kind: Kind, path: str, dtype: np.dtype[Any], about: About) -> Recipe | None:
        """Return the recipe of an array with elements of this type; None: not recorded.

        Args:
            kind, path: Kind and path of the array.
            dtype: Element type, with statistics and in native byte order.
            about: Metadata of arrays.
        """
        known = self._recipes.get(kind)
        if known is None:
            known = self._recipes[kind] = {}
        found = known.get(path)
        if found is None or found.dtype is not dtype:
            found = known[path] = self._reader.recipes(kind, self._mask).of_type(path, dtype, about)
        return found if found.taking is not None else None

    def read(self, kind: Kind, path: str, given: Callable[[], Any], about: About) -> None:
        """Read an array that `given` returns, if it is recorded."""
        if self._reader.recipes(kind, self._mask).of(path, about).taking is None:
            return
        lying = self._reader.dense(kind, path, given())
        recipe = None if lying is None else self.recipe(kind, path, lying.dtype, about)
        if lying is not None and recipe is not None:
            self.add(recipe, self.summarize(address_of(lying), lying.size, recipe))
            self.read_more(recipe, path, lying, about)

    def summarize(self, address: int, size: int, recipe: Recipe) -> int:
        """Return the index of a new reading of dense elements.

        Args:
            address: Address of the first element.
            size: Number of elements.
            recipe: Has their type and the histogram mode.
        """
        number, histogram = self._count, recipe.histogram
        moments = self._moments
        if moments is None or number >= self._room or (histogram and self._exponents is None):
            moments = self._make_room(histogram > 0)
        native.summarize_into(address, size, recipe.code, moments, number, self._exponents, histogram)
        self._count = number + 1
        return number

    def add(self, recipe: Recipe, number: int) -> None:
        """Assign a reading to a recipe; for gradients, which are complete last, the last one wins."""
        if recipe.key.kind is Kind.GRADIENT:
            self._single_values[recipe.row] = recipe, number
        else:
            self._values.append((recipe, number))

    def read_more(self, recipe: Recipe, path: str, array: NDArray[Any], about: About) -> None:
        """Read units and keep the elements, if requested."""
        if recipe.asks_for_more:
            self._more.begin_units(recipe.row, self._buffer)
            read_more(array, recipe, path, about, self._more)

    def merge_into(self, buffer: StepBuffer, seen: Seen, but: Container[Kind] = ()) -> bool:
        """Merge everything into a buffer, once; return whether there was anything.

        Args:
            buffer: Buffer of the current step or evaluation.
            seen: Called with each subject that was read.
            but: Kinds to omit.
        """
        values = [item for item in (*self._single_values.values(), *self._values) if item[0].key.kind not in but]
        moments, exponents = self._read.moments, self._read.exponents
        for rows, numbers in _in_turn((recipe.row, number) for recipe, number in values):
            merge_reduced(rows, moments[numbers], None if exponents is None else exponents[numbers], buffer)
        if buffer is self._buffer:
            buffer.replace_units(self._more)
        buffer.tensors.update({key: tensor for key, tensor in self._more.tensors.items() if key.kind not in but})
        for recipe, _ in values:
            seen.note(recipe.key.kind, recipe.key.path)
        return bool(values)

    def _make_room(self, histogram: bool) -> NDArray[np.float64]:
        read = self._read
        read.reserve(max(_ROOM, self._count + 1), histogram=histogram)
        self._moments, self._exponents, self._room = read.moments, read.exponents, len(read.moments)
        return read.moments


def _in_turn(values: Iterable[tuple[int, int]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows with the indices of their readings, in order, with distinct rows in each batch."""
    turns: list[list[tuple[int, int]]] = []
    times: dict[int, int] = {}
    for row, number in values:
        turn = times[row] = times.get(row, -1) + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append((row, number))
    for turn_of_rows in turns:
        rows, numbers = np.array(turn_of_rows, np.int64).T
        yield rows, numbers
