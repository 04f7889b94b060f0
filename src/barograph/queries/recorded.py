"""Training steps with and without tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.reading.layers import LAYER_KINDS
from barograph.runs.reading.reader import RunReader

MOST_COLUMNS = 300
"""Maximum number of columns of the ruler."""


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """The training steps of a run, and those of them with tensors, which most rules need.

    Attributes:
        first_step, last_step: First and last training step; -1 if there is none.
        count: Number of training steps.
        with_tensors: Number of them with tensors.
        edges: First step of each column of a ruler, ascending; one more at the end, the step after the last.
        shares: For each column, the share of its steps that have tensors; None if it has no steps.
    """

    first_step: int
    last_step: int
    count: int
    with_tensors: int
    edges: tuple[int, ...]
    shares: tuple[float | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def recorded_steps(run: RunReader, *, columns: int = MOST_COLUMNS) -> RecordedSteps:
    """Return which training steps have tensors.

    Args:
        run: The run.
        columns: Maximum number of columns of the ruler.

    Raises:
        StoreError: The store cannot be read.
    """
    steps = _made(run)
    if not len(steps):
        return RecordedSteps(-1, -1, 0, 0, (), ())
    low, high = int(steps[0]), int(steps[-1])
    seen = np.intersect1d(_with_tensors(run), steps)
    edges = np.unique(np.linspace(low, high + 1, min(columns, high + 1 - low) + 1).astype(np.int64))
    all_of, seen_of = np.histogram(steps, edges)[0], np.histogram(seen, edges)[0]
    return RecordedSteps(
        low, high, len(steps), len(seen), tuple(edges.tolist()),
        tuple(None if not count else round(float(found) / float(count), 4)
              for found, count in zip(seen_of.tolist(), all_of.tolist(), strict=True)))


def _made(run: RunReader) -> NDArray[np.int64]:
    """Return the training steps. What a script logs after the last one has the number of a step that was not made."""
    steps = run.steps(Mode.TRAIN)
    return steps[:-1] if len(steps) > 1 and _only_logged(run, steps[-1]) and not _only_logged(run, steps[-2]) else steps


def _only_logged(run: RunReader, step: np.int64) -> bool:
    table = run.arrow(mode=Mode.TRAIN, start=int(step), stop=int(step) + 1, columns=("kind",))
    return set(table["kind"].to_pylist()) <= {Kind.SCALAR, Kind.CUSTOM, Kind.MACHINE}


def _with_tensors(run: RunReader) -> NDArray[np.int64]:
    found = [np.empty(0, np.int64)]
    for kind in LAYER_KINDS:
        table = run.arrow(kind, mode=Mode.TRAIN, columns=("step", "count"))
        found.append(np.unique(table["step"].to_numpy()[table["count"].is_valid().to_numpy()]))
    return np.unique(np.concatenate(found))
