"""Writing messages of event files, which `events` reads."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_GREATEST = float(np.finfo(np.float32).max)
_WHOLE_64 = (1 << 64) - 1

_DT_FLOAT, _DT_DOUBLE, _DT_STRING = 1, 2, 7
_SESSION_START = 1


def first_event(time_unix: float) -> bytes:
    """Return the first event of a file, with the version of its format."""
    return _event(time_unix, 0, _field(3, b"brain.Event:2"))


def restart_event(time_unix: float, step: int) -> bytes:
    """Return the event of a resumed training, which invalidates earlier events of this step and later ones."""
    return _event(time_unix, step, _field(7, _whole(1, _SESSION_START)))


def summary_event(time_unix: float, step: int, values: Iterable[bytes]) -> bytes:
    """Return an event with values of one step.

    Args:
        time_unix: Time.
        step: Number of the step.
        values: Results of `scalar`, `histogram` and `text`.
    """
    return _event(time_unix, step, _field(5, b"".join([_field(1, value) for value in values])))


def scalar(tag: bytes, number: float) -> bytes:
    """Return a number as a value of an event.

    It is a tensor of one 32-bit number: TensorBoard's data server accepts no other scalar. NaN and infinities are
    kept, and finite numbers stay finite.

    Args:
        tag: Result of `tagged` for "scalars".
        number: The number.

    Example:
        >>> from barograph.wire.events import event_from_message
        >>> from barograph.wire.tensor_proto import array_from_proto
        >>> event = event_from_message(memoryview(summary_event(1.0, 7, [scalar(tagged("lr", "scalars"), 0.125)])))
        >>> event.step, event.values[0].tag, float(array_from_proto(event.values[0].tensor))
        (7, 'lr', 0.125)
    """
    if _GREATEST < abs(number) < math.inf:
        number = math.copysign(_GREATEST, number)
    return tag + _SCALAR_HEAD + _FLOAT.pack(number)


def histogram(tag: bytes, buckets: NDArray[np.float64]) -> bytes:
    """Return a histogram as a value of an event.

    Args:
        tag: Result of `tagged` for "histograms".
        buckets: Shape (buckets, 3): start, end and count of each; ascending, without gaps.
    """
    shape = _shape(buckets.shape)
    packed = np.ascontiguousarray(buckets, "<f8").tobytes()
    return tag + _field(8, _whole(1, _DT_DOUBLE) + shape + _field(4, packed))


def text(tag: bytes, markdown: str) -> bytes:
    """Return a text as a value of an event.

    Args:
        tag: Result of `tagged` for "text".
        markdown: The text.
    """
    return tag + _field(8, _whole(1, _DT_STRING) + _shape((1,)) + _field(8, markdown.encode()))


def tagged(name: str, plugin: str) -> bytes:
    """Return the start of a value: its tag, and the TensorBoard plugin that shows it.

    Example:
        >>> tagged("lr", "scalars")[:4]
        b'\\n\\x02lr'
    """
    return _field(1, name.encode()) + _field(9, _field(1, _field(1, plugin.encode())))


def _event(time_unix: float, step: int, what: bytes) -> bytes:
    return _key(1, _FIXED64) + _DOUBLE.pack(time_unix) + (_whole(2, step) if step else b"") + what


def _shape(sizes: Iterable[int]) -> bytes:
    return _field(2, b"".join([_field(2, _whole(1, size)) for size in sizes]))


def _field(number: int, data: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(data)) + data


def _whole(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value & _WHOLE_64)


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


# A tensor of one number without the number: the same for every scalar.
_SCALAR_HEAD = _field(8, _whole(1, _DT_FLOAT) + _shape(()) + _field(5, _FLOAT.pack(0.0)))[: -_FLOAT.size]
