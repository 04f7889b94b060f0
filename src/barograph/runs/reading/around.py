"""Records around one step, and the largest changes at it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from barograph.errors import UnknownStep
from barograph.model.finding import Finding
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.inventory import contributing
from barograph.runs.reading.moment import view_from_rows
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView

BEFORE, AFTER = 5, 5
"""Number of recorded steps shown before and after."""

HISTORY = 10
"""Number of earlier recorded steps with which tensors are compared."""

_DECADES_OF_FLOAT64 = 616.0
"""More than lie between any two numbers that are not zero: how far it is from or to zero."""

_TENSOR_KINDS = (Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.WEIGHT, Kind.OUTPUT)


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one tensor at the step, compared with earlier steps.

    Attributes:
        key: Key of the tensor.
        layer: Class of its module.
        norm: Norm at the step.
        usual: Median of its norms over the last `HISTORY` earlier steps with records of its kind.
        compared: Number of these in which it was recorded.
        factor: `norm / usual`; inf if it was zero.
        nonfinite: Number of elements that are NaN or infinite at the step.
        nonfinite_before: Largest such number in the earlier steps.
    """

    key: Key
    layer: str
    norm: float
    usual: float
    compared: int
    factor: float
    nonfinite: int
    nonfinite_before: int

    @property
    def size(self) -> float:
        """Size of the change in orders of magnitude; inf if a finite tensor became nonfinite."""
        if self.nonfinite > self.nonfinite_before:
            return math.inf
        return abs(math.log10(self.factor)) if 0 < self.factor < math.inf else _DECADES_OF_FLOAT64


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A step and its neighbors.

    Attributes:
        asked: The requested step.
        step: The nearest recorded step; of two, the earlier.
        views: Recorded steps before it, itself, and after it, in order of time, of all
            optimizers and modes.
        changes: Tensors recorded at the step and before it, largest change first.
        nearest_with_tensors: If the step has no tensors, the nearest steps with tensors, before and after.
    """

    asked: int
    step: int
    views: Sequence[StepView]
    changes: Sequence[Change]
    nearest_with_tensors: Sequence[int]


def around(run: RunReader, step: int) -> Surroundings:
    """Return the records around a step.

    Args:
        run: The run.
        step: Step number in any mode. If it was not recorded, the nearest recorded one is used.

    Raises:
        UnknownStep: The step is before or after all recorded steps; the message has the nearest.
        StoreError: The store cannot be read.
    """
    asked, steps = step, run.steps(None).tolist()
    if not steps or not steps[0] <= asked <= steps[-1]:
        raise UnknownStep(f"No records of step {asked}. {_nearest(asked, steps)} ({run.url})")
    step = min(steps, key=lambda item: (abs(item - asked), item))
    at = steps.index(step)
    first, last = steps[max(0, at - BEFORE)], steps[min(len(steps) - 1, at + AFTER)]
    recorded = {kind: _steps_of(run, kind) for kind in _TENSOR_KINDS}
    history = {kind: [item for item in found if item < step][-HISTORY:] for kind, found in recorded.items()}
    start = min([first, *(item for kind, found in history.items() if step in recorded[kind] for item in found)])
    views = _views(run.arrow(start=start, stop=last + 1), step)
    with_tensors = sorted({item for found in recorded.values() for item in found})
    return Surroundings(
        asked,
        step,
        views=[view for view in views if first <= view.step.number <= last],
        changes=_changes(step, [view for view in views if view.step.number <= step]),
        nearest_with_tensors=() if step in with_tensors else _neighbours(step, with_tensors),
    )


def findings_near(findings: Iterable[Finding], views: Sequence[StepView]) -> list[Finding]:
    """Return the findings that started, were open or closed in these steps."""
    numbers = [view.step.number for view in views]
    first, last = min(numbers), max(numbers)
    return [
        item for item in findings
        if item.since_step <= last and (item.closed_step is None or item.closed_step >= first)
    ]


def gradient_norm(view: StepView) -> float | None:
    """Return the norm of all gradients of a step together, NaN where one is not finite; None without any."""
    return _norm_of_all(view, Kind.GRADIENT)


def update_ratio(view: StepView) -> float | None:
    """Return the ratio of update to weights at the step; None if either was not recorded."""
    update, weight = _norm_of_all(view, Kind.UPDATE), _norm_of_all(view, Kind.WEIGHT)
    return update / weight if update is not None and weight else None


def _norm_of_all(view: StepView, kind: Kind) -> float | None:
    summaries = [summary for _, summary in view.summaries(kind)]
    if not summaries:
        return None
    if any(summary.nonfinite for summary in summaries):
        return math.nan
    return math.sqrt(sum(summary.sum_sq for summary in summaries))


def _steps_of(run: RunReader, kind: Kind) -> list[int]:
    table = run.arrow(kind, mode=Mode.TRAIN, columns=("step",))
    return [int(step) for step in np.unique(table["step"].to_numpy())]


def _views(table: pa.Table, step: int) -> list[StepView]:
    """Return one view for each step, optimizer and mode, in order of time, of the workers that recorded `step`."""
    modes, optimizers, workers = (dictionary_column(table, name) for name in ("mode", "optimizer", "worker"))
    steps = table["step"].to_numpy()
    code_of = {name: code for code, name in enumerate(workers.texts)}
    contributors = contributing([workers.texts[code] for code in np.unique(workers.codes[steps == step]).tolist()])
    views = []
    for number, mode, optimizer in np.unique(np.stack([steps, modes.codes, optimizers.codes]), axis=1).T.tolist():
        mine = (steps == number) & (modes.codes == mode) & (optimizers.codes == optimizer)
        parts = {name: [table.filter(pa.array(mine & (workers.codes == code_of[name])))] for name in contributors}
        view = view_from_rows(parts)
        if view is not None:
            views.append(view)
    return sorted(views, key=lambda view: (view.attempt, view.step.tick, view.step.number))


def _changes(step: int, views: Sequence[StepView]) -> list[Change]:
    changes: list[Change] = []
    for view in views:
        if view.step.number == step and view.step.mode is Mode.TRAIN:
            kin = [other for other in views if other.step.number < step and _same_kind(view, other)]
            changes.extend(_changes_of(view, kin))
    return sorted(changes, key=lambda change: (-change.size, change.key))


def _same_kind(one: StepView, other: StepView) -> bool:
    return (one.step.mode, one.step.optimizer) == (other.step.mode, other.step.optimizer)


def _changes_of(view: StepView, before: Sequence[StepView]) -> Iterator[Change]:
    for kind in _TENSOR_KINDS:
        now = list(view.summaries(kind))
        past: dict[Key, list[Summary]] = {}
        for other in before if now else ():
            for subject, summary in other.summaries(kind):
                past.setdefault(subject.key, []).append(summary)
        for subject, summary in now:
            if known := past.get(subject.key, [])[-HISTORY:]:
                usual = float(np.median([item.l2 for item in known]))
                yield Change(
                    subject.key, subject.layer, summary.l2, usual, len(known), _factor(summary.l2, usual),
                    summary.nonfinite, max(item.nonfinite for item in known),
                )


def _factor(norm: float, usual: float) -> float:
    if usual == 0:
        return 1.0 if norm == 0 else math.inf
    return norm / usual


def _neighbours(step: int, steps: Sequence[int]) -> list[int]:
    before = [item for item in steps if item < step]
    after = [item for item in steps if item > step]
    return [*before[-1:], *after[:1]]


def _nearest(step: int, steps: Sequence[int]) -> str:
    near = _neighbours(step, steps)
    return f"The nearest recorded step is {near[0]}." if near else "No steps were recorded."
