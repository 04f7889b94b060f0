"""How far a run was judged: what is held against the steps that its workers say they made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.view import StepView

_BETWEEN_STEPS = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.MACHINE})
"""May be recorded between two steps, under the number of the coming one."""

_OF_THE_MODEL = frozenset({
    Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER_STATE,
    Kind.BATCH, Kind.IMPORTANCE, Kind.TREE,
})
"""A step that recorded one of these counts as seen in a worker's coverage, whatever is recorded of the model."""


@dataclass(slots=True)
class Progress:
    """How far one group of workers was judged in its newest attempt.

    Attributes:
        attempt: Which.
        made: Optimizer steps that are known from the records to have been made, of the busiest optimizer.
        with_tensors: Optimizer steps judged of which something of the model was there: tensors, or trees.
    """

    attempt: int
    made: int = 0
    with_tensors: int = 0

    def take(self, view: StepView) -> None:
        """Count a step; one of a later attempt begins afresh."""
        if view.attempt > self.attempt:
            self.attempt, self.made, self.with_tensors = view.attempt, 0, 0
        if view.step.mode is Mode.TRAIN and view.kinds - _BETWEEN_STEPS:
            self.made = max(self.made, view.step.number + 1)
            self.with_tensors += bool(view.kinds & _OF_THE_MODEL)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return asdict(self)


def progress_from_json(data: Mapping[str, Any]) -> Progress:
    """Return the progress that `Progress.to_json` wrote."""
    return Progress(data["attempt"], data["made"], data["with_tensors"])
