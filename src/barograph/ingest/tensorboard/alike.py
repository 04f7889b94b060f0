"""Reads similar records, which differ only in time, step and value, as columns.

A fast path of `event_from_message` for events with one scalar, which nearly all are. All others are left to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedSource
from barograph.wire.events import event_from_message
from barograph.wire.framing import PROVED, Sweep, rows_of
from barograph.wire.protobuf import Field, Wire, bytes_of, fields_of
from barograph.wire.tensor_proto import array_from_proto

_MOST_BYTES = 1024
_FEWEST = 32
_MOST_SHAPES = 64
_MOST_STEP_BYTES = 8
_SCALARS = "scalars"
_TIME = slice(1, 9)


class Alike(NamedTuple):
    """Scalars of one tag.

    Attributes:
        tag: Their tag.
        places: Their indexes in the sweep, ascending.
        steps, times, values: One per record.
    """

    tag: str
    places: NDArray[np.intp]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]

    def part(self, start: int, stop: int) -> Alike:
        """Return a slice."""
        what = slice(start, stop)
        return Alike(self.tag, self.places[what], self.steps[what], self.times[what], self.values[what])


@dataclass(frozen=True, slots=True)
class _Shape:
    """Layout of a record: positions of time, step and number."""

    tag: str
    step: slice
    value: slice
    dtype: str


def alike_in(data: memoryview, sweep: Sweep, plugins: dict[str, str]) -> list[Alike]:
    """Return the scalars of a sweep that can be read as columns.

    Args:
        data: Contents of the file.
        sweep: Its next records.
        plugins: Tag to its plugin, from earlier records; updated.
    """
    found = []
    for length in np.unique(sweep.lengths).tolist():
        places = np.flatnonzero((sweep.lengths == length) & (sweep.states == PROVED))
        if length <= _MOST_BYTES and len(places) >= _FEWEST:
            found += _of_length(rows_of(data, sweep.starts[places], length), places, plugins)
    return found


def _of_length(rows: NDArray[np.uint8], places: NDArray[np.intp], plugins: dict[str, str]) -> list[Alike]:
    found = []
    for _ in range(_MOST_SHAPES):
        if len(rows) < _FEWEST:
            break
        shape = _shape_of(memoryview(rows[0].tobytes()), plugins)
        same = np.zeros(len(rows), bool) if shape is None else _same(rows, shape)
        same[0] = True
        if shape is not None:
            found.append(_columns(rows[same], places[same], shape))
        rows, places = rows[~same], places[~same]
    return found


def _same(rows: NDArray[np.uint8], shape: _Shape) -> NDArray[np.bool_]:
    fixed = np.ones(rows.shape[1], bool)
    for free in (_TIME, shape.step, shape.value):
        fixed[free] = False
    same: NDArray[np.bool_] = (rows[:, fixed] == rows[0, fixed]).all(axis=1)
    step = rows[:, shape.step]
    if step.shape[1]:
        # In a varint, all bytes but the last have the continuation bit.
        same &= (step[:, :-1] >= 0x80).all(axis=1) & (step[:, -1] < 0x80)
    return same


def _columns(rows: NDArray[np.uint8], places: NDArray[np.intp], shape: _Shape) -> Alike:
    def numbers(where: slice, dtype: str) -> NDArray[np.float64]:
        found = np.ascontiguousarray(rows[:, where]).view(dtype).reshape(-1)
        with np.errstate(invalid="ignore"):  # a NaN may be signaling
            return found.astype(np.float64)

    steps = np.zeros(len(rows), np.int64)
    for place, column in enumerate(rows[:, shape.step].T):
        steps |= (column.astype(np.int64) & 0x7F) << 7 * place
    return Alike(shape.tag, places, steps, numbers(_TIME, "<f8"), numbers(shape.value, shape.dtype))


def _shape_of(message: memoryview, plugins: dict[str, str]) -> _Shape | None:
    """Return the layout of a record; None if it is anything but one scalar."""
    try:
        event = event_from_message(message)
        (value,) = event.values
        step = _step_in(message)
        (item,) = [field for field in fields_of(message) if field.number == 5]
        tag_known = plugins.get(value.tag, next(iter(value.plugins), ""))
        if step is None or event.restarts or event.other or tag_known not in ("", _SCALARS):
            return None
        (inner,) = fields_of(bytes_of(item))
        number = _number_in(bytes_of(inner))
    except (DamagedSource, ValueError):
        return None
    if number is None:
        return None
    if value.plugins:
        plugins.setdefault(value.tag, _SCALARS)
    start = _offset(number, message)
    return _Shape(value.tag, step, slice(start, start + len(number)), f"<f{len(number)}")


def _step_in(message: memoryview) -> slice | None:
    """Return the position of the step in a record with time, step and value in this order."""
    if len(message) < 11 or message[0] != 0x09:
        return None
    if message[9] == 0x2A:
        return slice(9, 9)
    if message[9] != 0x10:
        return None
    for end in range(10, min(10 + _MOST_STEP_BYTES, len(message) - 1)):
        if message[end] < 0x80:
            return slice(10, end + 1) if message[end + 1] == 0x2A else None
    return None


def _number_in(value: memoryview) -> memoryview | None:
    """Return the bytes of the number of a value."""
    fields = list(fields_of(value))
    if len({field.number for field in fields}) != len(fields) or {field.number for field in fields} - {1, 2, 8, 9}:
        return None
    held = [field for field in fields if field.number in (2, 8)]
    if len(held) != 1:
        return None
    return _plain(held[0]) if held[0].number == 2 else _in_tensor(bytes_of(held[0]))


def _in_tensor(message: memoryview) -> memoryview | None:
    fields = list(fields_of(message))
    held = [field for field in fields if field.number in (4, 5, 6)]
    others = [field for field in fields if field.number not in (1, 2, 4, 5, 6)]
    # Checked once by the slow path: what it cannot read is damage of the file.
    array = array_from_proto(message)
    if len(held) != 1 or others or isinstance(array, list) or array.size != 1 or array.dtype not in ("<f4", "<f8"):
        return None
    plain = _plain(held[0])
    return plain if plain is not None and len(plain) == array.dtype.itemsize else None


def _plain(field: Field) -> memoryview | None:
    return None if isinstance(field.value, int) or field.wire is Wire.VARINT else field.value


def _offset(part: memoryview, whole: memoryview) -> int:
    return int(np.frombuffer(part, np.uint8).ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data)
