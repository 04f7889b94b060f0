"""The loss that a trial is expected to reach, by its curve so far and the curves of trials that trained longer.

A trial that was stopped early has a worse last value than one with the same parameters that trained to the end. A
model of last values would therefore learn how long trials trained.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from statistics import median

from barograph.tune.spec import Objective
from barograph.tune.trial import Trial

_MOST_PEERS = 30


class Outlook:
    """Expected losses of trials; it keeps the sorted steps of those that ended."""

    def __init__(self) -> None:
        self._steps: dict[int, list[int]] = {}

    def expected_losses(self, trials: Iterable[Trial], objective: Objective) -> Mapping[int, float]:
        """Return number to loss at the end of the training, for each trial with a curve.

        A trial that trained as long as the longest one keeps its last loss. Any other gets its last loss plus a
        median change: the change from that step to the expected end of trials that trained longer.
        """
        curves = sorted(((self._steps_of(trial), trial) for trial in trials if trial.curve),
                        key=lambda one: (-one[0][-1], one[1].number))
        lengths = [-steps[-1] for steps, _ in curves]
        found: dict[int, float] = {}
        for steps, trial in curves:
            last = steps[-1]
            longer = bisect.bisect_left(lengths, -last)
            changes = [found[other.number] - objective.loss(other.curve[its[bisect.bisect_left(its, last)]])
                       for its, other in curves[max(0, longer - _MOST_PEERS):longer]]
            found[trial.number] = objective.loss(trial.curve[last]) + (median(changes) if changes else 0.0)
        return found

    def _steps_of(self, trial: Trial) -> list[int]:
        if not trial.state.is_over:
            return sorted(trial.curve)
        if trial.number not in self._steps:
            self._steps[trial.number] = sorted(trial.curve)
        return self._steps[trial.number]
