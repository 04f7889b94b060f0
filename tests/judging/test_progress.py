"""A jump of the learning rate is remembered; a warmup and a restart are none."""

from __future__ import annotations

import pytest

from barograph.judging.progress import Progress, RateJump, progress_from_json
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.runs.reading.view import StepView

RATE = Key(Kind.LEARNING_RATE, "group0")


def fed(rates: dict[int, float], optimizer: str = "") -> Progress:
    progress = Progress(attempt=0)
    for step, rate in rates.items():
        progress.take(StepView.of(Step(step, step, optimizer=optimizer), {RATE: rate}))
    return progress


def test_a_rate_three_times_above_all_before_is_a_jump() -> None:
    progress = fed({198: 0.05, 199: 0.05, 200: 30.0, 201: 30.0})

    assert progress.rate_jumps("p0") == [RateJump("p0", 200, 0.05, 30.0, 199)]


@pytest.mark.parametrize("rates", [
    {0: 1e-6, 1: 1e-3, 2: 0.1},
    {0: 0.0, 50: 0.1},
    {step: step / 1000 for step in (1, 2, 4, 8, 16, 32, 64, 128)},
    {0: 0.1, 100: 1e-5, 101: 0.1},
    {0: 0.1, 100: float("nan"), 101: 0.1},
])
def test_a_beginning_a_warmup_and_a_restart_are_none(rates: dict[int, float]) -> None:
    assert fed(rates).rate_jumps("p0") == []


def test_optimizers_have_rates_of_their_own() -> None:
    progress = fed({20: 1e-4}, "one")
    progress.take(StepView.of(Step(21, 21, optimizer="two"), {RATE: 0.1}))

    assert progress.jumps == []


def test_who_goes_on_remembers_it_and_an_earlier_version_has_none() -> None:
    progress = fed({199: 0.05, 200: 30.0})

    assert progress_from_json(progress.to_json()) == progress
    assert progress_from_json({"attempt": 0, "made": 3, "with_tensors": 2}) == Progress(0, 3, 2)


def test_a_run_that_was_started_again_begins_afresh() -> None:
    progress = fed({199: 0.05, 200: 30.0})
    progress.take(StepView.of(Step(0, 0), {RATE: 0.05}, attempt=1))

    assert progress.jumps == []
