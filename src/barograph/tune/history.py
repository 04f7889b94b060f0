"""The trials of a study for strategies: positions between 0 and 1, and losses, where lower is better."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from barograph.tune.space import Space
from barograph.tune.spec import Objective
from barograph.tune.trial import Cause, Trial, TrialState


class History:
    """All trials of a study, and those it inherited.

    Args:
        space: Search space.
        objectives: Objectives.
    """

    def __init__(self, space: Space, objectives: Sequence[Objective]) -> None:
        self.space, self.objectives = space, tuple(objectives)
        self.trials: list[Trial] = []
        self.running: dict[int, Trial] = {}
        self.ended: list[Trial] = []
        """Trials that have ended, in the order in which they ended."""
        self.judged: list[tuple[Trial, int]] = []
        """Trials that ended and that models had predicted, with their index in `units`."""
        self.stopped: list[tuple[Trial, int]] = []
        """Trials that a rule or the user stopped and that have a curve, with their index in `units`."""
        self._units = array("d")
        self._losses = array("d")

    def add(self, trial: Trial) -> None:
        """Add a new trial."""
        self.trials.append(trial)
        if not trial.state.is_over:
            self.running[trial.number] = trial

    def end(self, trial: Trial) -> None:
        """Record the end of a trial."""
        self.running.pop(trial.number, None)
        self.ended.append(trial)
        if trial.origin.scores:
            self.judged.append((trial, self.ended_count))
        if trial.state is TrialState.STOPPED and trial.cause is not Cause.FINDING and trial.curve:
            self.stopped.append((trial, self.ended_count))
        self.inherit(trial)

    def inherit(self, trial: Trial) -> None:
        """Add a trial of a similar study."""
        self._units.extend(self.space.units(trial.parameters))
        self._losses.extend(losses_of(trial, self.objectives))

    @property
    def has_curves(self) -> bool:
        """Whether trials report values while they train."""
        return bool(self.stopped) or any(trial.curve for trial in self.running.values())

    @property
    def ended_count(self) -> int:
        """Number of trials that ended, with inherited ones."""
        return len(self._losses) // len(self.objectives)

    def units(self, first: int = 0) -> array[float]:
        """Return the positions of ended trials in the order of their ends, inherited ones first.
        """
        return self._units[first * len(self.space):]

    def losses(self, first: int = 0) -> array[float]:
        """Return their losses, one for each objective; infinite for a trial that failed or that a finding stopped."""
        return self._losses[first * len(self.objectives):]


def losses_of(trial: Trial, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Return what the search learns from a trial that ended.

    A trial that a rule or the user stopped counts with its last value; a portfolio replaces it by the expected one, see
    `strategies.outlook`. One that a finding stopped counts as failed, whatever its values.
    """
    if trial.state is TrialState.FINISHED:
        return tuple(objective.loss(value) for objective, value in zip(objectives, trial.values, strict=True))
    if trial.state is TrialState.STOPPED and trial.cause is not Cause.FINDING and len(objectives) == 1:
        values = trial.values or ((trial.curve[max(trial.curve)],) if trial.curve else ())
        if values and math.isfinite(values[0]):
            return (objectives[0].loss(values[0]),)
    return (math.inf,) * len(objectives)
