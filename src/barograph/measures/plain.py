"""NumPy reference of the native loop: the same calls by address.

It is used if the native module could not be built, and in its tests. Callers use `measures.native`, which also
documents each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.measures.elements import element_type, subtract, values_as_float64
from barograph.measures.summary import exponents_of_values, merge_rows, moments_of_values, sampled
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS

_NO_ROW = -1
_MOST_THREADS = 64


def summarize_into(
    pointer: int, numel: int, dtype: int,
    moments: NDArray[np.float64], row: int, exponents: NDArray[np.int64] | None = None, exponent_mode: int = 0,
) -> None:
    """Merge the statistics of the elements at an address into one row."""
    _check_rows(moments, row, exponents, exponent_mode)
    _merge(memory(pointer, numel, dtype), moments, row, exponents, exponent_mode)


def summarize_many(
    pointers: NDArray[np.int64], numels: NDArray[np.int64], dtypes: NDArray[np.int32], rows: NDArray[np.int64],
    moments: NDArray[np.float64], exponents: NDArray[np.int64] | None = None, modes: int | NDArray[np.uint8] = 0,
) -> None:
    """Merge the statistics of each of many tensors into its row."""
    if not len(pointers) == len(numels) == len(dtypes) == len(rows):
        raise ValueError("pointers, numels, dtypes and rows must have one length.")
    places = _places(rows, modes)
    for row, mode in places:
        _check_rows(moments, row, exponents, mode)
    tensors = [memory(*where) for where in zip(pointers.tolist(), numels.tolist(), dtypes.tolist(), strict=True)]
    for tensor, (row, mode) in zip(tensors, places, strict=True):
        _merge(tensor, moments, row, exponents, mode)


def difference_into(
    after: int, before: int, numel: int, dtype: int,
    moments: NDArray[np.float64], row: int, exponents: NDArray[np.int64] | None = None, exponent_mode: int = 0,
    advance: bool = False,
) -> None:
    """Merge the statistics of after − before into one row."""
    _check_rows(moments, row, exponents, exponent_mode)
    new, old = memory(after, numel, dtype), memory(before, numel, dtype)
    _merge(subtract(new, old), moments, row, exponents, exponent_mode)
    if advance:
        old[...] = new


def difference_many(
    afters: NDArray[np.int64], befores: NDArray[np.int64], numels: NDArray[np.int64], dtypes: NDArray[np.int32],
    rows: NDArray[np.int64], update_rows: NDArray[np.int64],
    moments: NDArray[np.float64], exponents: NDArray[np.int64] | None = None,
    modes: int | NDArray[np.uint8] = 0, update_modes: int | NDArray[np.uint8] = 0,
) -> None:
    """Merge the statistics of each of many tensors, and of after − before, into its two rows."""
    if len({len(each) for each in (afters, befores, numels, dtypes, rows, update_rows)}) > 1:
        raise ValueError("afters, befores, numels, dtypes, rows and update_rows must have one length.")
    asked = [_places(rows, modes), _places(update_rows, update_modes)]
    for row, mode in (place for places in asked for place in places if place[0] != _NO_ROW):
        _check_rows(moments, row, exponents, mode)
    tensors = [[memory(*where) for where in zip(pointers.tolist(), numels.tolist(), dtypes.tolist(), strict=True)]
               for pointers in (afters, befores)]
    for new, old, (row, mode), (update_row, update_mode) in zip(*tensors, *asked, strict=True):
        if row != _NO_ROW:
            _merge(new, moments, row, exponents, mode)
        if update_row != _NO_ROW:
            _merge(subtract(new, old), moments, update_row, exponents, update_mode)


def units_into(
    pointer: int, outer: int, units: int, inner: int, dtype: int, bound: float, columns: NDArray[np.float64],
) -> None:
    """Merge the statistics of each unit of an (outer, units, inner) array into its row of `columns`."""
    if min(outer, units, inner) < 0:
        raise ValueError("outer, units and inner must be 0 or more.")
    _check_buffer("columns", columns, np.dtype(np.float64), len(UNIT_FIELDS))
    if columns.shape[0] != units:
        raise ValueError(f"columns has {columns.shape[0]} rows; it must have one for each of {units} units.")
    flat = values_as_float64(memory(pointer, outer * units * inner, dtype))
    values = flat.reshape(outer, units, inner).swapaxes(0, 1).reshape(units, outer * inner)
    finite = np.isfinite(values)
    columns[:, 0] += np.count_nonzero(values == 0, axis=1)
    columns[:, 1] += np.count_nonzero(np.abs(values) >= bound, axis=1)
    columns[:, 2] += np.count_nonzero(~finite, axis=1)
    columns[:, 3] = np.minimum(columns[:, 3], values.min(axis=1, initial=np.inf, where=finite))
    columns[:, 4] = np.maximum(columns[:, 4], values.max(axis=1, initial=-np.inf, where=finite))
    with np.errstate(all="ignore"):
        columns[:, 5] += values.sum(axis=1, where=finite)
        columns[:, 6] += np.square(values, where=finite, out=np.zeros_like(values)).sum(axis=1)


def all_finite(pointers: NDArray[np.int64], numels: NDArray[np.int64], dtypes: NDArray[np.int32]) -> bool:
    """Return whether every element of every tensor is finite."""
    if not len(pointers) == len(numels) == len(dtypes):
        raise ValueError("pointers, numels and dtypes must have one length.")
    tensors = [memory(*where) for where in zip(pointers.tolist(), numels.tolist(), dtypes.tolist(), strict=True)]
    with np.errstate(all="ignore"):  # a signalling NaN is data
        return all(bool(np.isfinite(tensor).all()) for tensor in tensors)


def copy(destination: int, source: int, size_bytes: int) -> None:
    """Copy bytes from one address to another."""
    code = 7  # uint8
    memory(destination, size_bytes, code)[...] = memory(source, size_bytes, code)


def copy_many(
    destinations: NDArray[np.int64], sources: NDArray[np.int64], sizes_bytes: NDArray[np.int64],
) -> None:
    """Copy bytes from each of many addresses to another."""
    if not len(destinations) == len(sources) == len(sizes_bytes):
        raise ValueError("destinations, sources and sizes_bytes must have one length.")
    code = 7  # uint8
    pairs = [(memory(to, size, code), memory(of, size, code)) for to, of, size in zip(
        destinations.tolist(), sources.tolist(), sizes_bytes.tolist(), strict=True)]
    for destination, source in pairs:
        destination[...] = source


def use_threads(threads: int) -> int:
    """Accept any number of threads; one thread reads."""
    if not 1 <= threads <= _MOST_THREADS:
        raise ValueError(f"threads is {threads}; it must be 1 to {_MOST_THREADS}.")
    return 1


def memory(pointer: int, numel: int, dtype: int) -> NDArray[Any]:
    """Return the `numel` dense elements at an address as a flat array that shares their memory.

    Raises:
        ValueError: `numel` is negative, the address is 0 although there are elements, or the type is unknown.
    """
    if numel < 0:
        raise ValueError(f"numel is {numel}; it must be 0 or more.")
    kind = element_type(dtype)
    if numel == 0:
        return np.empty(0, kind)
    if pointer == 0:
        raise ValueError(f"The address of {numel} elements is 0.")
    return np.asarray(_Memory(pointer, numel * kind.itemsize)).view(kind)


class _Memory:
    """Bytes at an address, with NumPy's array interface."""

    def __init__(self, pointer: int, size_bytes: int) -> None:
        self.__array_interface__ = {
            "data": (int(pointer), False), "shape": (int(size_bytes),), "typestr": "|u1", "version": 3,
        }


def _places(rows: NDArray[np.int64], modes: int | NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Return the row of each tensor, and the mode of its histogram."""
    if not isinstance(modes, int) and len(modes) != len(rows):
        raise ValueError("modes must be one number, or one for each tensor.")
    each = [modes] * len(rows) if isinstance(modes, int) else modes.tolist()
    return list(zip(rows.tolist(), each, strict=True))


def _merge(
    elements: NDArray[Any], moments: NDArray[np.float64], row: int, exponents: NDArray[np.int64] | None, mode: int,
) -> None:
    values = values_as_float64(elements)
    merge_rows(moments[row : row + 1], moments_of_values(values)[np.newaxis])
    if mode and exponents is not None:
        exponents[row] += exponents_of_values(sampled(values, Histogram(mode)))


def _check_rows(moments: NDArray[np.float64], row: int, exponents: NDArray[np.int64] | None, mode: int) -> None:
    _check_buffer("moments", moments, np.dtype(np.float64), len(MOMENT_FIELDS))
    if not 0 <= row < moments.shape[0]:
        raise ValueError(f"row is {row}; moments has {moments.shape[0]} rows.")
    if mode not in (0, 1, 2):
        raise ValueError(f"exponent mode is {mode}; it must be 0 (none), 1 (sampled) or 2 (exact).")
    if exponents is not None:
        _check_buffer("exponents", exponents, np.dtype(np.int64), EXPONENT_BINS)
    if mode and (exponents is None or row >= exponents.shape[0]):
        raise ValueError(f"A histogram is requested for row {row}, but exponents has no such row.")


def _check_buffer(name: str, array: NDArray[Any], dtype: np.dtype[Any], width: int) -> None:
    whole = array.ndim == 2 and array.shape[1] == width and array.dtype == dtype
    if not (whole and array.flags.c_contiguous and array.flags.writeable):
        raise ValueError(f"{name} must be a writable C-contiguous {dtype.name} array of shape (n, {width}).")

