"""A writer that discards everything, for sessions that need no run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barograph.model.key import Key
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.runs.format.pending import Pending
from barograph.runs.writing.record_writer import Closing, RecordWriter


class NullWriter(RecordWriter):
    """Discards everything."""

    def __init__(self) -> None:
        self.log = _discard_logged

    def put(self, records: StepRecords | Pending) -> bool:
        """Discard the records of a step."""
        return True

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Discard the numbers of a step."""
        return True

    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        """Return a function that discards the numbers of a step."""
        return _discard_numbers

    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        """Discard the batches of a step."""

    def flush(self) -> None:
        """Do nothing: nothing is queued."""

    def close(self, state: EndState, reason: str = "") -> Closing:
        """Return that nothing was lost."""
        return Closing(True, 0, 0, 0, 0, ())

    def after_fork_in_child(self) -> None:
        """Do nothing: nothing is shared."""


def _discard_logged(name: str, value: float, step: int, mode: Mode, time_unix: float) -> None:
    pass


def _discard_numbers(tick: int, number: int, time_unix: float, values: Sequence[float]) -> bool:
    return True
