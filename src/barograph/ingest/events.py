"""An Event, the message that event files hold one of in each record: as far as values of a step are concerned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barograph.ingest.wire import Field, bytes_of, fields_of, real_of, text_of, whole_of

_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE, _METADATA, _TENSOR = 1, 2, 9, 8
_PLUGIN = 1


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an event.

    Attributes:
        tag: What it is called.
        tensor: The TensorProto; None where it is another sort of value.
        number: The plain number; None where it is another sort of value.
        plugins: Name to content of what its metadata holds.
    """

    tag: str
    tensor: memoryview | None = None
    number: float | None = None
    plugins: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        time_unix: When it was written.
        step: Of the step it belongs to.
        values: What it holds; none where it tells of a graph, or of the version of the file.
    """

    time_unix: float
    step: int
    values: tuple[Value, ...]


def event_from_message(message: memoryview) -> Event:
    """Return the event that a record holds.

    Raises:
        DamagedSource: The bytes are no such message.

    Example:
        >>> event_from_message(memoryview(bytes([16, 7, 42, 7, 10, 5, 10, 3, 108, 114, 49])))
        Event(time_unix=0.0, step=7, values=(Value(tag='lr1', tensor=None, number=None, plugins={}),))
    """
    time_unix, step = 0.0, 0
    values: list[Value] = []
    for part in fields_of(message):
        if part.number == _WALL_TIME:
            time_unix = real_of(part)
        elif part.number == _STEP:
            step = whole_of(part)
        elif part.number == _SUMMARY:
            values += [_value(item) for item in fields_of(bytes_of(part)) if item.number == _VALUE]
    return Event(time_unix, step, tuple(values))


def _value(item: Field) -> Value:
    tag, tensor, number = "", None, None
    plugins: dict[str, bytes] = {}
    for part in fields_of(bytes_of(item)):
        if part.number == _TAG:
            tag = text_of(part)
        elif part.number == _TENSOR:
            tensor = bytes_of(part)
        elif part.number == _SIMPLE:
            number = real_of(part)
        elif part.number == _METADATA:
            plugins.update(_plugin(entry) for entry in fields_of(bytes_of(part)) if entry.number == _PLUGIN)
    return Value(tag, tensor, number, plugins)


def _plugin(entry: Field) -> tuple[str, bytes]:
    name, content = "", b""
    for part in fields_of(bytes_of(entry)):
        if part.number == 1:
            name = text_of(part)
        elif part.number == 2:
            content = bytes(bytes_of(part))
    return name, content
