"""Reads arrays in host memory: locates their elements and the rows of their statistics."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from barograph.capture.array_recipes import WITH_UNITS, About, Recipe, Recipes
from barograph.capture.plan import Taking
from barograph.errors import UnsupportedCapture
from barograph.measures import native
from barograph.measures.summary import identity_rows, merge_rows
from barograph.model.activations import bound_of
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.summary import EXPONENT_BINS
from barograph.model.tensor import RawTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer
    from barograph.capture.session import Session

_Lies = tuple[int, int, int, int]
"""Address, number of elements, type code and histogram mode of an array."""

_NO_ROW = -1


class _Rows(Protocol):
    """The arrays that statistics are merged into, as in `native.summarize_many`."""

    @property
    def moments(self) -> NDArray[np.float64]: ...

    @property
    def exponents(self) -> NDArray[np.int64] | None: ...


class _Apart(NamedTuple):
    """Rows that belong to no step yet."""

    moments: NDArray[np.float64]
    exponents: NDArray[np.int64] | None


class _Asked(NamedTuple):
    """An array that is due, with its path."""

    path: str
    array: NDArray[Any]
    recipe: Recipe
    taking: Taking


class _Moved(NamedTuple):
    """An array whose change is recorded, with its earlier elements in the same memory layout.

    Attributes:
        weight: Recipe of the array itself, if it is recorded, too.
        update: Recipe of the difference.
        now: Current elements.
        earlier: Earlier elements.
    """

    weight: _Asked | None
    update: _Asked
    now: NDArray[Any]
    earlier: NDArray[Any]


class ArrayReader:
    """Reads arrays into a `StepBuffer`, with one native call per batch of arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._recipes: dict[tuple[Kind, int], Recipes] = {}

    def plan_changed(self) -> None:
        """Discard cached recipes after a change of the plan."""
        self._recipes.clear()

    def read(
        self, groups: Iterable[tuple[Kind, Mapping[str, Any]]], about: About, mask: int, buffer: StepBuffer
    ) -> bool:
        """Merge the statistics of the masked arrays into their rows.

        An array that occurs several times, such as an output that is the input of the next layer, is read once.

        Args:
            groups: By kind, path to an array or to a function that returns one; None: missing.
            about: Metadata of the arrays.
            mask: What to record.
            buffer: Buffer of the step or the evaluation.

        Returns:
            Whether any array was read.
        """
        found = [item for kind, arrays in groups for item in self._asked(kind, arrays, about, mask)]
        if not found:
            return False
        buffer.reserve(max(item.recipe.row for item in found) + 1,
                       histogram=any(item.taking.histogram for item in found))
        places: dict[_Lies, list[_Asked]] = {}
        for item in found:
            places.setdefault(_lies(item), []).append(item)
        once = {lies: items[0].recipe.row for lies, items in places.items() if len(items) == 1}
        _summarize(list(once), list(once.values()), buffer)
        if len(once) < len(places):
            _summarize_shared({lies: [item.recipe.row for item in items] for lies, items in places.items()
                               if len(items) > 1}, buffer)
        for item in found:
            self._read_more(item, about, buffer)
        return True

    def read_updated(
        self, after: Mapping[str, Any], before: Mapping[str, NDArray[Any]], about: About, mask: int, buffer: StepBuffer
    ) -> bool:
        """Merge the statistics of weights, and those of after − before, if both exist with the same type and shape.

        Args:
            after: Path to an array, or to a function that returns it.
            before: Path to the earlier array.
            about, mask, buffer: As in `read`.

        Returns:
            Whether any weight was read.
        """
        weights = {item.path: item for item in self._asked(Kind.WEIGHT, after, about, mask)}
        both = {path: weights[path].array if path in weights else after[path] for path in before if path in after}
        updates = {item.path: item for item in self._asked(Kind.UPDATE, both, about, mask)}
        moved = [_Moved(weights.get(path), item, *pair) for path, item in updates.items()
                 if (pair := _lying_alike(item.array, before[path])) is not None]
        compared = {each.update.path for each in moved}
        alone = [item for path, item in weights.items() if path not in compared]
        asked = [*weights.values(), *(each.update for each in moved)]
        if not asked:
            return False
        buffer.reserve(max(item.recipe.row for item in asked) + 1,
                       histogram=any(item.taking.histogram for item in asked))
        _summarize([_lies(item) for item in alone], [item.recipe.row for item in alone], buffer)
        _compare(moved, buffer)
        for item in weights.values():
            self._read_more(item, about, buffer)
        for each in moved:
            if each.update.taking.raw:
                buffer.tensors[each.update.recipe.key] = raw_array(each.now - each.earlier)
        return bool(weights)

    def keep(self, key: Key, array: Any, buffer: StepBuffer) -> None:
        """Record one array and its statistics, regardless of the plan.

        Raises:
            UnsupportedCapture: Statistics are not defined for its type.
        """
        value = dense(np.asarray(array))
        row = self._session.output.table.row(Subject(key, "", value.dtype.name))
        buffer.reserve(row + 1, histogram=False)
        native.summarize_into(address_of(value), value.size, _code(value), buffer.moments, row)
        buffer.tensors[key] = raw_array(value)

    def row(self, key: Key, layer: str, dtype: str, whole: int = 0) -> int:
        """Return the row for merging statistics of a tensor."""
        return self._session.output.table.row(Subject(key, layer, dtype, whole > 0, whole))

    def _asked(self, kind: Kind, arrays: Mapping[str, Any], about: About, mask: int) -> Iterator[_Asked]:
        """Yield each array to read, dense in memory, with its recipe."""
        recipes = self.recipes(kind, mask)
        for path, given in arrays.items():
            if given is None:
                continue
            recipe = recipes.of(path, about)
            if recipe.taking is None:
                continue
            array = self.dense(recipe.key.kind, path, given() if callable(given) else given)
            if array is None:
                continue
            if recipe.dtype is not array.dtype:
                recipe = recipes.of_type(path, array.dtype, about)
            yield _Asked(path, array, recipe, recipe.taking or Taking())

    def recipes(self, kind: Kind, mask: int) -> Recipes:
        """Return the recipes for arrays of a kind under a mask."""
        mask = self._session.plan.of_kind(mask, kind)
        found = self._recipes.get((kind, mask))
        if found is None:
            found = self._recipes[kind, mask] = Recipes(self._session, kind, mask)
        return found

    def dense(self, kind: Kind, path: str, given: Any) -> NDArray[Any] | None:
        """Return an array as `dense` does; None if it has no statistics, which the coverage reports."""
        try:
            return dense(np.asarray(given))
        except UnsupportedCapture as error:
            self._session.seen.reasons[f"{kind} {error}"] = f"{kind.value} of {path}: {error}"
            return None

    def _read_more(self, item: _Asked, about: About, buffer: StepBuffer) -> None:
        """Note that an array was recorded, and read its units and elements if requested."""
        key = item.recipe.key
        self._session.seen.note(key.kind, key.path)
        read_more(item.array, item.recipe, item.path, about, buffer)


def read_more(array: NDArray[Any], recipe: Recipe, path: str, about: About, buffer: StepBuffer) -> None:
    """Read the units and the elements of an array if requested."""
    taking = recipe.taking or Taking()
    if taking.units and recipe.key.kind in WITH_UNITS and array.ndim > 1 and array.size:
        bound = bound_of(about.layers.get(path, ""))
        read_units(array, recipe.row, about.unit_axis, math.nan if bound is None else bound, buffer)
    if taking.raw:
        buffer.tensors[recipe.key] = raw_array(array)


def read_units(array: NDArray[Any], row: int, axis: int, bound: float, buffer: StepBuffer) -> None:
    """Merge per-unit statistics into the units of row `row`.

    Args:
        array: At least one axis, not empty.
        row: Row of the buffer.
        axis: Axis of the units; may be negative.
        bound: Elements with |x| >= bound count as beyond; NaN: none.
        buffer: The buffer.
    """
    axis %= array.ndim
    lying = np.ascontiguousarray(array)
    outer, units, inner = math.prod(lying.shape[:axis]), lying.shape[axis], math.prod(lying.shape[axis + 1 :])
    columns = buffer.unit_columns(row, units, outer * inner, bound)
    native.units_into(address_of(lying), outer, units, inner, _code(lying), bound, columns)


def _lies(item: _Asked) -> _Lies:
    return address_of(item.array), item.array.size, item.recipe.code, item.recipe.histogram


def _summarize(places: Sequence[_Lies], rows: Sequence[int], into: _Rows) -> None:
    """Merge the statistics of arrays into rows, in one native call.

    Args:
        places: Location of each array.
        rows: Row of each array.
        into: Buffers with the rows.
    """
    if not places:
        return
    addresses, sizes, codes, histograms = zip(*places, strict=True)
    native.summarize_many(
        np.array(addresses, np.int64), np.array(sizes, np.int64), np.array(codes, np.int32), np.array(rows, np.int64),
        into.moments, into.exponents, np.array(histograms, np.uint8),
    )


def _compare(moved: Sequence[_Moved], buffer: StepBuffer) -> None:
    """Merge the statistics of arrays, if requested, and of their differences, in one native call."""
    if not moved:
        return
    entries = [
        (address_of(each.now), address_of(each.earlier), each.now.size, each.update.recipe.code,
         _NO_ROW if each.weight is None else each.weight.recipe.row, each.update.recipe.row,
         0 if each.weight is None else each.weight.recipe.histogram, each.update.recipe.histogram)
        for each in moved
    ]
    after, before, sizes, codes, rows, update_rows, histograms, of_updates = zip(*entries, strict=True)
    native.difference_many(
        np.array(after, np.int64), np.array(before, np.int64), np.array(sizes, np.int64), np.array(codes, np.int32),
        np.array(rows, np.int64), np.array(update_rows, np.int64), buffer.moments, buffer.exponents,
        np.array(histograms, np.uint8), np.array(of_updates, np.uint8),
    )


def _lying_alike(now: NDArray[Any], earlier: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return two arrays with the same dense memory layout; None if types or shapes differ."""
    if now.shape != earlier.shape or now.dtype != earlier.dtype:
        return None
    if now.strides == earlier.strides:  # one of them is dense, so both are
        return now, earlier
    return np.ascontiguousarray(now), np.ascontiguousarray(earlier)


def _summarize_shared(places: Mapping[_Lies, Sequence[int]], buffer: StepBuffer) -> None:
    """Merge the statistics of each array into several rows; rows are distinct."""
    moments = identity_rows(len(places))
    exponents = None if buffer.exponents is None else np.zeros((len(places), EXPONENT_BINS), np.int64)
    _summarize(list(places), range(len(places)), _Apart(moments, exponents))
    read, rows = zip(*((number, row) for number, rows in enumerate(places.values()) for row in rows), strict=True)
    of = np.array(read)
    merge_reduced(np.array(rows), moments[of], None if exponents is None else exponents[of], buffer)


def merge_reduced(
    rows: NDArray[np.int64], moments: NDArray[np.float64], exponents: NDArray[np.int64] | None, buffer: StepBuffer
) -> None:
    """Merge statistics computed on a device into distinct rows of a buffer.

    Args:
        rows: Shape (n,).
        moments: Shape (n, 10), columns as in `MOMENT_FIELDS`.
        exponents: Shape (n, 512); None without histograms.
        buffer: The buffer.

    Raises:
        ShapeMismatch: The shapes do not match.
    """
    if not len(rows):
        return
    buffer.reserve(int(rows.max()) + 1, histogram=exponents is not None)
    merged = buffer.moments[rows]
    merge_rows(merged, np.asarray(moments, np.float64))
    buffer.moments[rows] = merged
    if exponents is not None and buffer.exponents is not None:
        buffer.exponents[rows] += np.asarray(exponents, np.int64)


def dense(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array dense in memory and in native byte order.

    The order of axes is kept, because it does not affect statistics: a column-major array is not copied.

    Raises:
        UnsupportedCapture: Statistics are not defined for its type.
    """
    dtype = array.dtype
    if _code_of(dtype) is None:
        array = _as_known(array)
    elif not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    flags = array.flags
    return array if flags.c_contiguous or flags.f_contiguous else np.ascontiguousarray(array)


def raw_array(array: NDArray[Any]) -> RawTensor:
    """Return the whole array as bytes."""
    return RawTensor(array.dtype.name, array.shape, array.tobytes())


_SMALL = ("float8_", "float6_", "float4_", "int4", "uint4", "int2", "uint2")
"""Prefixes of ml_dtypes' narrow types, all of whose values float32 can represent."""


def _as_known(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name.startswith(_SMALL):
        return array.astype(np.float32)
    raise UnsupportedCapture(f"no statistics for elements of type {array.dtype}")


def _code(array: NDArray[Any]) -> int:
    return native.dtype_code(array.dtype.name)


@functools.lru_cache(256)
def _code_of(dtype: np.dtype[Any]) -> int | None:
    """Return the native loop's code of a type; None: unsupported. Cached, because NumPy builds the name on each
    access."""
    return native.DTYPE_CODES.get(dtype.name)


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return cast("int", array.__array_interface__["data"][0])

