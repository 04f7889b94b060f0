"""One step, the steps around it, and what changed most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.model.finding import Finding
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.queries.recall import recalled
from barograph.queries.workers import figures_of
from barograph.rules.columns import learning_rate, stated_loss
from barograph.runs.reading.around import Change, around, findings_near, gradient_norm, update_ratio
from barograph.runs.reading.one_worker import OneWorker
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step.

    Attributes:
        step: Its number.
        mode: Its mode.
        optimizer: Its optimizer; "" if the run has one.
        time_unix: When it ended.
        skipped: The gradient scaler skipped its update.
        loss: The loss that was minimized; None if none was recorded.
        losses: All losses, by path.
        logged: Logged numbers, by path.
        gradient_norm: Norm of all gradients together; NaN if one is not finite; None if none was recorded.
        update_ratio: Norm of the update divided by the norm of the weights; None if either is missing.
        learning_rate: Learning rate; None if none was recorded.
    """

    step: int
    mode: Mode
    optimizer: str
    time_unix: float
    skipped: bool
    loss: float | None
    losses: Mapping[str, float]
    logged: Mapping[str, float]
    gradient_norm: float | None
    update_ratio: float | None
    learning_rate: float | None

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({
            "step": self.step, "mode": self.mode, "optimizer": self.optimizer, "time_unix": self.time_unix,
            "skipped": self.skipped, "losses": self.losses, "logged": self.logged,
            "gradient_norm": self.gradient_norm, "update_ratio": self.update_ratio,
            "learning_rate": self.learning_rate,
        })
        return data


@dataclass(frozen=True, slots=True)
class StepAround:
    """A step and its neighbors.

    Attributes:
        url: Path or URL of the run.
        asked: The step that was asked for.
        step: The nearest recorded step, which is shown.
        steps: Recorded steps before it, itself, and after it, in order of time.
        changes: Tensors recorded at the step and before it, largest change first.
        nearest_with_tensors: If the step has no tensors, the nearest steps that have.
        findings: Findings that began, were open, or closed among these steps.
        worker: The worker that is shown; None: all merged.
        figures: Which worker is shown, and which others there are; "" if all are merged or there is one.
        damage: What could not be read.
    """

    url: str
    asked: int
    step: int
    steps: tuple[StepRow, ...]
    changes: tuple[Change, ...]
    nearest_with_tensors: tuple[int, ...]
    findings: tuple[Finding, ...]
    worker: str | None
    figures: str
    damage: tuple[str, ...]

    @property
    def here(self) -> StepRow:
        """The step that is shown."""
        return next(row for row in self.steps if row.step == self.step)

    def events(self, row: StepRow) -> list[str]:
        """Return which findings began or were gone at a step, as "A101 began"."""
        return [
            f"{finding.code} {verb}" for finding in self.findings
            if (finding.mode, finding.optimizer) == (row.mode, row.optimizer)
            for verb, when in (("began", finding.since_step), ("gone", finding.closed_step)) if when == row.step
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({
            "url": self.url, "asked": self.asked, "step": self.step,
            "nearest_with_tensors": self.nearest_with_tensors, "steps": [row.to_json() for row in self.steps],
            "changes": [_change_to_json(change) for change in self.changes],
            "findings": [item.to_json() for item in self.findings], "damage": self.damage, "worker": self.worker,
            "figures": self.figures,
        })
        return data


def step_around(run: RunReader, step: int, worker: str | None = None) -> StepAround:
    """Return a step and its neighbors.

    Args:
        run: The run.
        step: Number of the step, in any mode; if it was not recorded, the nearest that was is shown.
        worker: Name of a worker; None: all ranks merged, or the first process that recorded the step.

    Raises:
        UnknownWorker: There is no such worker.
        UnknownStep: The step is before the first or after the last that was recorded.
        StoreError: The run cannot be read.
    """
    run = OneWorker(run.store, worker) if worker is not None else run
    found = around(run, step)
    group = found.views[0].group
    near = findings_near([item for item in recalled(run.store).summary.findings if item.worker == group], found.views)
    shown = worker if worker is not None or group == "r" else group
    return StepAround(run.url, found.asked, found.step, tuple(_row(view) for view in found.views),
                      tuple(found.changes), tuple(found.nearest_with_tensors), tuple(near), shown,
                      figures_of(run, shown), tuple(run.damage))


def changed(changes: Sequence[Change], *, decades: float) -> list[Change]:
    """Return the tensors whose norm changed by more than so many orders of magnitude, or that are not finite."""
    return [change for change in changes if change.size > decades or change.nonfinite]


def _row(view: StepView) -> StepRow:
    loss = stated_loss(view)
    return StepRow(
        view.step.number, view.step.mode, view.step.optimizer, view.step.time_unix, view.step.skipped,
        loss[1] if loss else None, {key.path: value for key, value in view.scalars(Kind.LOSS).items()},
        {key.path: value for key, value in view.scalars(Kind.SCALAR).items()}, gradient_norm(view), update_ratio(view),
        learning_rate(view),
    )


def _change_to_json(change: Change) -> dict[str, Any]:
    return {
        "key": str(change.key), "class": change.layer, "norm": change.norm, "usual": change.usual,
        "compared_steps": change.compared, "factor": change.factor, "nonfinite": change.nonfinite,
        "nonfinite_before": change.nonfinite_before,
    }
