"""The data trace of a run: which samples each step used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import UnknownName
from barograph.model.plain import plain
from barograph.runs.format.traced import DataRead, TracedBatch, is_called
from barograph.runs.reading.trace import Parting, Trace


@dataclass(frozen=True, slots=True)
class StepData:
    """The batches of a step and of those before it.

    Attributes:
        step: The step that was asked for.
        batches: In the order they were used, worker by worker.
    """

    step: int
    batches: tuple[TracedBatch, ...]

    @property
    def named(self) -> list[TracedBatch]:
        """The batches of the step itself; none if no name of their samples is known."""
        fed = [batch for batch in self.batches if batch.step == self.step]
        return fed if any(any(batch.names) for batch in fed) else []

    def to_json(self) -> list[dict[str, Any]]:
        """Return it as strict JSON data."""
        return [batch.to_json() for batch in self.batches]


@dataclass(frozen=True, slots=True)
class SeenIn:
    """A batch that contained what was asked for.

    Attributes:
        batch: The batch.
        rows: Its rows with the sample, or with samples of the name.
    """

    batch: TracedBatch
    rows: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        return {**self.batch.to_json(), "rows": list(self.rows)}


@dataclass(frozen=True, slots=True)
class Seen:
    """The batches that contained a sample, or samples of a name.

    Attributes:
        wanted: The sample or the name.
        batches: The batches, in order.
        is_name: Whether `wanted` is a name of samples instead, if no batch was found.
    """

    wanted: str
    batches: tuple[SeenIn, ...]
    is_name: bool = False

    def to_json(self) -> list[dict[str, Any]]:
        """Return it as strict JSON data."""
        return [item.to_json() for item in self.batches]


@dataclass(frozen=True, slots=True)
class DataSets:
    """The data sets that the steps of a run used.

    Attributes:
        known: Each data set of each worker.
    """

    known: tuple[DataRead, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return it as strict JSON data."""
        return [plain(item._asdict()) for item in self.known]


def data_of_step(trace: Trace, step: int, *, before: int = 0) -> StepData:
    """Return the batches of a step and of those before it.

    Args:
        trace: Trace of the run.
        step: Step number.
        before: Number of preceding steps to include.

    Raises:
        UnknownStep: The step was not recorded.
    """
    return StepData(step, trace.at(step, before=before))


def seen_sample(trace: Trace, sample: str) -> Seen:
    """Return the batches that contained a sample; see `Trace.seeing`."""
    found = _seen(trace.seeing(sample), lambda batch: batch.rows_of(sample))
    return Seen(sample, found, is_name=not found and _is_name(trace, sample))


def seen_name(trace: Trace, name: str) -> Seen:
    """Return the batches that contained samples of a name; see `Trace.of_file`.

    Raises:
        UnknownName: No sample has this name.
    """
    return Seen(name, _seen(trace.of_file(name), lambda batch: [
        row for row, text in enumerate(batch.names) if text and is_called(text, name)]))


def data_sets(trace: Trace) -> DataSets:
    """Return the data sets that steps used, worker by worker."""
    return DataSets(tuple(trace.data_sets()))


def parting_to_json(parting: Parting) -> dict[str, Any]:
    """Return the first difference between the data of two runs as strict JSON data."""
    return {
        "step": parting.step, "same_steps": parting.same_steps, "only": parting.only,
        "one": [batch.to_json() for batch in parting.one], "other": [batch.to_json() for batch in parting.other],
    }


def _seen(batches: Sequence[TracedBatch], rows: Callable[[TracedBatch], Sequence[int]]) -> tuple[SeenIn, ...]:
    return tuple(SeenIn(batch, tuple(rows(batch))) for batch in batches)


def _is_name(trace: Trace, text: str) -> bool:
    try:
        trace.of_file(text)
    except UnknownName:
        return False
    return True
