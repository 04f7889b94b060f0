"""The values of one step of one worker, from the files that smdebug keeps them in."""

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
    """What one worker saved of one step.

    Attributes:
        mode: smdebug's name of it.
        mode_step: The step as counted in that mode.
        time_unix: When its last value was written; NaN where no event says so.
        values: Name to value.
        proved: Values whose checksum was filled in, and is right.
        unproved: Values that nothing proves.
    """

    mode: str = ""
    mode_step: int = -1
    time_unix: float = math.nan
    values: dict[str, Array | Texts] = field(default_factory=dict)
    proved: int = 0
    unproved: int = 0


def saved_step(data: memoryview, step: int, index: Index | None, tell: Callable[[str], object]) -> SavedStep:
    """Return all that can be read of a file of values.

    The mode is the index's, as smdebug itself has it; without an index it is that of the first value.

    Args:
        data: The file.
        step: The global step that its name says.
        index: What is noted of it; None: nothing.
        tell: Told of each thing that is damaged: a clause.
    """
    saved = SavedStep() if index is None else SavedStep(index.mode, index.mode_step)
    starts = () if index is None else sorted(index.starts.values())
    for record in records_in(data, starts):
        if isinstance(record, BrokenRecord):
            tell(f"at byte {record.start} {record.reason}{_named_at(record.start, index)}")
            continue
        try:
            event = event_from_message(record.payload)
            if event.values and event.step != step:
                raise DamagedSource(f"an event is of step {event.step}, and the file of step {step}")
            for value in event.values:
                _take(value, event, saved)
                saved.proved += record.proved
                saved.unproved += not record.proved
        except DamagedSource as error:
            tell(f"at byte {record.start} {error}{_named_at(record.start, index)}")
    if index is not None:
        for name in index.starts.keys() - saved.values.keys():
            tell(f"{name} is lost: the index names it, and it cannot be read")
    return saved


def _take(value: Value, event: Event, saved: SavedStep) -> None:
    if value.tensor is None:
        raise DamagedSource(f'the value "{value.tag}" is no tensor')
    if not value.tag:
        raise DamagedSource("a value has no name")
    if not saved.mode:
        saved.mode, saved.mode_step = _mode_of(value.plugins, event.step)
    # Saved twice in a step, the later one counts, as smdebug has it.
    saved.values[value.tag] = array_from_proto(value.tensor)
    if math.isfinite(event.time_unix):
        saved.time_unix = event.time_unix


def _mode_of(plugins: Mapping[str, bytes], step: int) -> tuple[str, int]:
    try:
        mode = MODE_NUMBERS[plugins.get("mode", b"4").decode("ascii")]
        return mode, int(plugins.get("mode_step", str(step).encode()))
    except (KeyError, ValueError):
        raise DamagedSource("a value is of a mode that is unknown") from None


def _named_at(start: int, index: Index | None) -> str:
    names = [name for name, at in index.starts.items() if at == start] if index else []
    return f" ({names[0]})" if names else ""
