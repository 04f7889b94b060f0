"""Passes records to the writer, which is opened at the first sign of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barograph.capture.buffer import PendingStep, RowTable, StepBuffer
from barograph.capture.this_worker import Rank
from barograph.model.key import Key, Kind
from barograph.model.manifest import Heartbeat
from barograph.model.step import Mode, Step

if TYPE_CHECKING:
    from barograph.model.trace import BatchFed
    from barograph.runs.writing.record_writer import RecordWriter

OpenWriter = Callable[[Rank, Callable[[], Heartbeat]], "RecordWriter"]
FedBy = Callable[[int, int, str], "Sequence[BatchFed]"]


class Output:
    """Passes all records to the writer.

    Args:
        open_writer: Claims this worker's place and returns the writer; called once, with the rank and a function that
            returns the state of the training.

    Attributes:
        table: Rows by subject.
        writer: The writer; None: not opened yet, failed, or the run belongs to another process.
        fed_by: Returns the batches of an ended step, by tick, number and optimizer; None: not traced.
        handed_over_steps: Number of training steps with numbers passed to the writer.
    """

    __slots__ = ("_channels", "_failed", "_open_writer", "fed_by", "handed_over_steps", "table", "writer")

    def __init__(self, open_writer: OpenWriter) -> None:
        self.table = RowTable()
        self.writer: RecordWriter | None = None
        self.fed_by: FedBy | None = None
        self.handed_over_steps = 0
        self._open_writer = open_writer
        self._failed = False
        self._channels: dict[tuple[Any, ...], Callable[[int, int, float, Sequence[float]], bool]] = {}

    @property
    def may_open(self) -> bool:
        """Whether the writer has not been opened yet."""
        return self.writer is None and not self._failed

    def open(self, rank: Rank, status: Callable[[], Heartbeat]) -> None:
        """Open the writer.

        Args:
            rank: Rank of this process.
            status: Returns the state of the training.
        """
        try:
            self.writer = self._open_writer(rank, status)
        except Exception:
            self._failed = True  # try once, not at every step of the training
            raise

    def follow_feeding(self, fed_by: FedBy) -> None:
        """Pass on, at the end of each step, the batches that `fed_by` returns."""
        self.fed_by = fed_by

    def put_fed(self, tick: int, number: int, optimizer: str) -> None:
        """Pass on the batches of a step."""
        if self.fed_by is not None:
            batches = self.fed_by(tick, number, optimizer)
            if batches and self.writer is not None:
                self.writer.put_batches(batches)

    def put(self, buffer: StepBuffer, step: Step) -> None:
        """Pass on the records of a step; the buffer must not be used again."""
        if self.writer is None:
            return
        # It is not known yet whether there are tensors.
        self.handed_over_steps += step.mode is Mode.TRAIN and bool(buffer.scalars or buffer.losses)
        if buffer.light:
            self.writer.put_numbers(step, buffer.numbers())
        else:
            self.writer.put(PendingStep(buffer, step, self.table.subjects()))

    def put_light(
        self, tick: int, number: int, optimizer: str, time_unix: float, losses: Mapping[Any, tuple[float, int]],
        rates: Sequence[float], others: Mapping[Key, float],
    ) -> None:
        """Pass on a training step with only numbers.

        Args:
            tick, number, optimizer, time_unix: As in `Step`.
            losses: Path of a loss, or key of another number, to the sum of its values in this step, and their number.
            rates: Learning rate of each parameter group.
            others: Further numbers.
        """
        writer = self.writer
        if writer is None:
            return
        values = [total / count for total, count in losses.values()]
        values += rates
        if others:
            keys = _keys_of(losses, len(rates))
            numbers = {**dict(zip(keys, values, strict=True)), **others}
            writer.put_numbers(Step(tick, number, optimizer, Mode.TRAIN, time_unix), numbers)
            return
        series = (optimizer, len(rates), *losses)
        channel = self._channels.get(series)
        if channel is None:
            channel = self._channels[series] = writer.channel(_keys_of(losses, len(rates)), optimizer)
        channel(tick, number, time_unix, values)

    def flush(self) -> None:
        """Publish everything passed so far now; does not wait."""
        if self.writer is not None:
            self.writer.flush()

    def abandon(self) -> None:
        """Release the writer in a forked child: the run is its parent's."""
        if self.writer is not None:
            self.writer.after_fork_in_child()
        self.writer = None


def _keys_of(losses: Iterable[Any], rates: int) -> list[Key]:
    keys = [item if isinstance(item, Key) else Key(Kind.LOSS, item) for item in losses]
    return keys + [Key(Kind.LEARNING_RATE, f"group{number}") for number in range(rates)]
