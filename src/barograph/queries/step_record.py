"""Everything that was recorded at one step: numbers, tensors, samples, and the saved step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.errors import BarographError, UnknownStep
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.records import Subject
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.queries.capsules import CapsuleRow, capsules_of
from barograph.runs.format.traced import TracedBatch
from barograph.runs.reading.layers import LAYER_KINDS
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.trace import NO_TRACE
from barograph.runs.state.capsules import read_replay

MOST_TENSORS = 400
"""Maximum number of tensors."""

MOST_SAMPLES = 512
"""Maximum number of samples of a batch."""

_KINDS = (*LAYER_KINDS, Kind.GRADIENT_CLIPPED, Kind.INPUT, Kind.BATCH, Kind.TARGET, Kind.OPTIMIZER_STATE, Kind.CUSTOM)
_COUNTED = frozenset({Kind.LABEL, Kind.CONFUSION})


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor at the step.

    Attributes:
        key: Its key.
        layer: Class of its module; "" if it belongs to none.
        norm, mean_abs, least, greatest: Over the finite elements; NaN if there are none.
        zeros: Share of zeros.
        nonfinite: Number of elements that are NaN or infinite.
        count: Number of elements.
    """

    key: str
    layer: str
    norm: float
    mean_abs: float
    least: float
    greatest: float
    zeros: float
    nonfinite: int
    count: int


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A capsule of the step.

    Attributes:
        capsule: What it is.
        command: The command that replays it.
        replay: What the last `barograph replay --json` of it printed; None if it was not replayed.
        problem: Why the result of the replay cannot be read; "" if it can, or there is none.
    """

    capsule: CapsuleRow
    command: str
    replay: Mapping[str, Any] | None
    problem: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Everything that was recorded at a step.

    Attributes:
        step: The step.
        numbers: Plain numbers by key.
        tensors: Tensors, those that are not finite first; at most `MOST_TENSORS`.
        tensors_left_out: Number left out.
        batches: The batches that it was computed from.
        no_batches: Why there are none; "" if there are some.
        saved: Its capsules.
    """

    step: int
    numbers: Mapping[str, float]
    tensors: tuple[TensorRow, ...]
    tensors_left_out: int
    batches: tuple[TracedBatch, ...]
    no_batches: str
    saved: tuple[SavedStep, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data; of a large batch the first `MOST_SAMPLES` samples."""
        data: dict[str, Any] = {
            "step": self.step, "numbers": plain(self.numbers), "tensors": plain(self.tensors),
            "tensors_left_out": self.tensors_left_out, "batches": [_batch_to_json(batch) for batch in self.batches],
            "no_batches": self.no_batches,
            "saved": [{"capsule": item.capsule.to_json(), "command": item.command, "replay": plain(item.replay),
                       "problem": item.problem} for item in self.saved],
        }
        return data


def step_record(run: RunReader, step: int) -> StepRecord:
    """Return everything that was recorded at a training step.

    Args:
        run: The run.
        step: Its number.

    Raises:
        StoreError: The run cannot be read.
    """
    numbers: dict[str, float] = {}
    tensors: list[TensorRow] = []
    try:
        view = run.at(step, mode=Mode.TRAIN)
    except UnknownStep:
        pass  # evaluations alone, or the step was saved and not published
    else:
        numbers = {str(key): value for kind in sorted(view.kinds - _COUNTED)
                   for key, value in sorted(view.scalars(kind).items())}
        tensors = [
            _row(subject, seen) for kind in _KINDS for subject, seen in view.summaries(kind)
        ]
        tensors.sort(key=lambda row: row.nonfinite == 0)
    batches, no_batches = _batches(run, step)
    return StepRecord(step, numbers, tuple(tensors[:MOST_TENSORS]), max(0, len(tensors) - MOST_TENSORS), batches,
                      no_batches, saved_steps(run, step))


def _row(subject: Subject, seen: Summary) -> TensorRow:
    norm, least, greatest = (seen.l2, seen.min, seen.max) if seen.finite else (np.nan, np.nan, np.nan)
    return TensorRow(str(subject.key), subject.layer, norm, seen.mean_abs, least, greatest, seen.sparsity,
                     seen.nonfinite, seen.count)


def saved_steps(run: RunReader, step: int | None = None) -> tuple[SavedStep, ...]:
    """Return the capsules of a run, and the results of their last replays.

    Args:
        run: The run.
        step: Only those of this step; None: all.

    Raises:
        StoreError: The run cannot be read.
    """
    place = run.url.removeprefix("file://")
    rows = [row for row in capsules_of(run.store, place)
            if step is None or (row.head is not None and row.head.step == step)]
    return tuple(_saved(run, row) for row in rows)


def _saved(run: RunReader, row: CapsuleRow) -> SavedStep:
    command = f"barograph replay {shlex.quote(row.place)}"
    try:
        return SavedStep(row, command, read_replay(run.store, row.place.rpartition("/")[2]), "")
    except BarographError as error:
        return SavedStep(row, command, None, str(error))


def _batches(run: RunReader, step: int) -> tuple[tuple[TracedBatch, ...], str]:
    trace = run.once("trace", run.trace)
    if not len(trace):
        return (), NO_TRACE
    try:
        return trace.at(step), ""
    except UnknownStep as error:
        return (), str(error)


def _batch_to_json(batch: TracedBatch) -> dict[str, Any]:
    data = batch.to_json()
    return {**data, "samples": data["samples"][:MOST_SAMPLES],
            "names": None if data["names"] is None else data["names"][:MOST_SAMPLES]}
