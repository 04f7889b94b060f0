"""Cost of recording a run, and its budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from barograph.model.plain import plain
from barograph.runs.reading.glance import glance
from barograph.runs.reading.reader import RunReader


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """Cost of recording, of the worker that it cost most.

    Attributes:
        share: Time used in the training thread as a share of the training time without it; NaN if unknown.
        budget: Allowed share; NaN without a budget.
        capture_secs, train_secs: Seconds used in the training thread, and seconds of training.
        background_secs: CPU seconds of Barograph's own threads.
        startup_secs: Seconds used before the first step.
        interval_steps: Steps between two with tensors, as the budget allows.
        may_exceed: The training is so short that recording may exceed the budget.
    """

    share: float
    budget: float
    capture_secs: float
    train_secs: float
    background_secs: float
    startup_secs: float
    interval_steps: int
    may_exceed: bool

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def recording_cost(run: RunReader) -> RecordingCost:
    """Return what recording cost.

    Raises:
        StoreError: The store cannot be read.
    """
    costs = [state.last.cost for state in glance(run.store).newest_workers if state.last is not None]
    if not costs:
        return RecordingCost(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0, may_exceed=True)
    most = max(costs, key=lambda cost: cost.share)
    return RecordingCost(most.share if most.train_secs > 0 else math.nan, most.budget, most.capture_secs,
                         most.train_secs, most.background_secs, most.startup_secs, most.interval_steps, most.may_exceed)
