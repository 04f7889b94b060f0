"""Parsing of Event, the message in each record of an event file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barograph.wire.protobuf import Field, bytes_of, fields_of, real_of, text_of, whole_of

_WALL_TIME, _STEP, _SUMMARY, _SESSION = 1, 2, 5, 7
_VALUE = 1
_TAG, _SIMPLE, _HISTOGRAM, _TENSOR, _METADATA = 1, 2, 5, 8, 9
_PLUGIN = 1
_STATUS, _START = 1, 1

_OTHER_EVENTS = {4: "graph", 6: "log message", 8: "run metadata", 9: "graph"}
_OTHER_VALUES = {4: "image", 6: "audio"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an event.

    Attributes:
        tag: Its tag.
        tensor: The TensorProto; None for other types of values.
        number: The plain number; None for other types of values.
        histogram: The HistogramProto; None for other types of values.
        other: Name of another type: "image", "audio".
        plugins: Plugin name to content, from its metadata.
    """

    tag: str
    tensor: memoryview | None = None
    number: float | None = None
    histogram: memoryview | None = None
    other: str = ""
    plugins: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        time_unix: Time of writing.
        step: Number of its step.
        values: Its values; empty for a graph or the version of the file.
        restarts: A session starts with this step, and invalidates earlier events of this step and later
            ones.
        other: Name of other content: "graph".
    """

    time_unix: float
    step: int
    values: tuple[Value, ...]
    restarts: bool = False
    other: str = ""


def event_from_message(message: memoryview) -> Event:
    """Return the event in a record.

    Raises:
        DamagedSource: The bytes are not such a message.

    Example:
        >>> event = event_from_message(memoryview(bytes([16, 7, 42, 7, 10, 5, 10, 3, 108, 114, 49])))
        >>> event.step, event.values[0].tag, event.values[0].number
        (7, 'lr1', None)
    """
    time_unix, step = 0.0, 0
    restarts, other = False, ""
    values: list[Value] = []
    for part in fields_of(message):
        if part.number == _WALL_TIME:
            time_unix = real_of(part)
        elif part.number == _STEP:
            step = whole_of(part)
        elif part.number == _SUMMARY:
            values += [_value(item) for item in fields_of(bytes_of(part)) if item.number == _VALUE]
        elif part.number == _SESSION:
            said = {item.number: whole_of(item) for item in fields_of(bytes_of(part)) if item.number == _STATUS}
            restarts = said.get(_STATUS) == _START
        else:
            other = _OTHER_EVENTS.get(part.number, other)
    return Event(time_unix, step, tuple(values), restarts, other)


def _value(item: Field) -> Value:
    tag, other, tensor, number, histogram = "", "", None, None, None
    plugins: dict[str, bytes] = {}
    for part in fields_of(bytes_of(item)):
        if part.number == _TAG:
            tag = text_of(part)
        elif part.number == _TENSOR:
            tensor = bytes_of(part)
        elif part.number == _SIMPLE:
            number = real_of(part)
        elif part.number == _HISTOGRAM:
            histogram = bytes_of(part)
        elif part.number == _METADATA:
            plugins.update(_plugin(entry) for entry in fields_of(bytes_of(part)) if entry.number == _PLUGIN)
        else:
            other = _OTHER_VALUES.get(part.number, other)
    return Value(tag, tensor, number, histogram, other, plugins)


def _plugin(entry: Field) -> tuple[str, bytes]:
    name, content = "", b""
    for part in fields_of(bytes_of(entry)):
        if part.number == 1:
            name = text_of(part)
        elif part.number == 2:
            content = bytes(bytes_of(part))
    return name, content
