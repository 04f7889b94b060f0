"""Reads the values of one step of one worker from smdebug's files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from barograph.errors import DamagedSource
from barograph.ingest.smdebug.index import MODE_NUMBERS, Index
from barograph.wire.events import Event, Value, event_from_message
from barograph.wire.framing import BrokenRecord, records_in
from barograph.wire.tensor_proto import Texts, array_from_proto

Array = NDArray[Any]


@dataclass(slots=True)
class SavedStep:
    """Values of one step of one worker.

    Attributes:
        mode: smdebug's name of the mode.
        mode_step: Step within that mode.
        time_unix: Time of its last value; NaN if unknown.
        values: Name to value.
        proved: Number of values with a valid checksum.
        unproved: Number of values without a checksum.
    """

    mode: str = ""
    mode_step: int = -1
    time_unix: float = math.nan
    values: dict[str, Array | Texts] = field(default_factory=dict)
    proved: int = 0
    unproved: int = 0


def saved_step(data: memoryview, step: int, index: Index | None, report: Callable[[str], object]) -> SavedStep:
    """Return everything readable in a file of values.

    The mode is that of the index, as in smdebug, or else that of the first value.

    Args:
        data: Contents of the file.
        step: Global step in its name.
        index: Its index; None: missing.
        report: Called with a clause for each damage.
    """
    saved = SavedStep() if index is None else SavedStep(index.mode, index.mode_step)
    starts = () if index is None else sorted(index.starts.values())
    for record in records_in(data, starts):
        if isinstance(record, BrokenRecord):
            report(f"at byte {record.start} {record.reason}{_named_at(record.start, index)}")
            continue
        try:
            event = event_from_message(record.payload)
            if event.values and event.step != step:
                raise DamagedSource(f"an event has step {event.step}, but the file step {step}")
            for value in event.values:
                _take(value, event, saved)
                saved.proved += record.proved
                saved.unproved += not record.proved
        except DamagedSource as error:
            report(f"at byte {record.start} {error}{_named_at(record.start, index)}")
    if index is not None:
        for name in index.starts.keys() - saved.values.keys():
            report(f"{name} is lost: it is in the index, but unreadable")
    return saved


def _take(value: Value, event: Event, saved: SavedStep) -> None:
    if value.tensor is None:
        raise DamagedSource(f'value "{value.tag}" is not a tensor')
    if not value.tag:
        raise DamagedSource("a value has no name")
    if not saved.mode:
        saved.mode, saved.mode_step = _mode_of(value.plugins, event.step)
    # If saved twice in a step, the later value wins, as in smdebug.
    saved.values[value.tag] = array_from_proto(value.tensor)
    if math.isfinite(event.time_unix):
        saved.time_unix = event.time_unix


def _mode_of(plugins: Mapping[str, bytes], step: int) -> tuple[str, int]:
    try:
        mode = MODE_NUMBERS[plugins.get("mode", b"4").decode("ascii")]
        return mode, int(plugins.get("mode_step", str(step).encode()))
    except (KeyError, ValueError):
        raise DamagedSource("a value has an unknown mode") from None


def _named_at(start: int, index: Index | None) -> str:
    names = [name for name, at in index.starts.items() if at == start] if index else []
    return f" ({names[0]})" if names else ""
