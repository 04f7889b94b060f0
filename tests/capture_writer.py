"""Stands where the writer of a recording stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barograph.model.key import Key
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.runs.writing.record_writer import Closing, RecordWriter


class ListWriter(RecordWriter):
    """Stands where the writer stands, and keeps what it is given."""

    def __init__(self) -> None:
        self.steps: list[StepRecords] = []
        self.logged: list[tuple[str, float, int, Mode]] = []
        self.batches: list[BatchFed] = []
        self.log = self._log
        self.flushed_after: list[int] = []

    def put(self, records: Any) -> bool:
        self.steps.append(records.resolve())
        return True

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        self.steps.append(StepRecords(step, scalars=numbers))
        return True

    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        def put(tick: int, number: int, time_unix: float, values: Sequence[float]) -> bool:
            return self.put_numbers(Step(tick, number, optimizer, Mode.TRAIN, time_unix),
                                    dict(zip(keys, values, strict=True)))

        return put

    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        self.batches += batches

    def _log(self, name: str, value: float, step: int, mode: Mode, time_unix: float) -> None:
        self.logged.append((name, value, step, mode))

    def flush(self) -> None:
        self.flushed_after.append(len(self.steps))

    def close(self, state: EndState, reason: str = "") -> Closing:
        self.ended = (state, reason)
        return Closing(True, 0, 0, 0, 0, ())

    def after_fork_in_child(self) -> None:
        """Nothing is shared."""
