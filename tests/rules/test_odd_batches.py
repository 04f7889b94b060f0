"""What a batch that reaches too far says of what happened right after it: N101 and W101."""

from __future__ import annotations

import math

import pytest

from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.numbers import NonFinite
from barograph.rules.updates import WeightUpdateRatio
from barograph.runs.reading.view import StepView
from judging import RATE, TOTAL, causes, symptoms

BATCH = Key(Kind.BATCH, "model")


def tensor(norm: float) -> Summary:
    return Summary(count=10, min=-norm, max=norm, sum=0.0, sum_sq=norm * norm, sum_abs=norm)


def trained(losses: list[float], reaches: dict[int, float], *, first: int = 0, large: int = -1) -> list[StepView]:
    """Return steps whose batches reach 3, but for some; in one step the update is ten times the weights."""
    return [StepView.of(step, {
        TOTAL: loss, RATE: 0.1,
        BATCH: Summary(count=10, min=-3.0, max=reaches.get(step, 3.0)),
        Key(Kind.WEIGHT, "fc.weight"): tensor(1.0),
        Key(Kind.UPDATE, "fc.weight"): tensor(10.0 if step == large else 1e-3),
        Key(Kind.GRADIENT, "fc.weight"): tensor(1.0),
    }) for step, loss in enumerate(losses, first)]


LEVEL = [1.0] * 12


def test_what_becomes_nan_right_after_a_batch_that_reached_too_far_speaks_for_a_bad_sample() -> None:
    (symptom,) = symptoms(NonFinite(), trained([*LEVEL, 5e3, 7e16, math.inf], {12: 3000.0}))

    assert causes(symptom)[0] == "bad-sample"
    assert symptom.causes[0].why == ("the batch of step 12 has values up to 3,000, 1,000 times the largest of "
                                     "the previous 12 batches")
    assert symptom.remedy.startswith("The batch of step 12 has values up to 3,000")


@pytest.mark.parametrize("reaches", [{}, {12: 20.0}, {1: 3000.0}], ids=["none", "seven times", "before it was known"])
def test_batches_of_a_usual_reach_leave_it_to_the_learning_rate(reaches: dict[int, float]) -> None:
    (symptom,) = symptoms(NonFinite(), trained([*LEVEL, 5e3, 7e16, math.inf], reaches))

    assert causes(symptom)[0] == "learning-rate-too-high"
    assert all(item.weight < 0.5 for item in symptom.causes if item.cause == "bad-sample")


def test_a_batch_that_reached_far_long_ago_has_done_no_harm() -> None:
    (symptom,) = symptoms(NonFinite(), trained([*LEVEL, *[1.0] * 40, 5e3, math.inf], {12: 3000.0}))

    assert "bad-sample" not in causes(symptom)


def test_a_step_too_large_from_a_batch_that_reached_too_far_speaks_for_a_bad_sample() -> None:
    (symptom,) = symptoms(WeightUpdateRatio(), trained([*LEVEL, 5e3, 7e16], {12: 3000.0}, large=12))

    assert causes(symptom)[:2] == ["bad-sample", "learning-rate-too-high"]
    assert symptom.remedy.startswith("Find the sample in the batch of step 12")


def test_a_step_too_large_from_a_usual_batch_speaks_for_the_learning_rate() -> None:
    (symptom,) = symptoms(WeightUpdateRatio(), trained([*LEVEL, 1.0, 3.0], {}, large=12))

    assert causes(symptom)[0] == "learning-rate-too-high"
    assert symptom.causes[0].weight == 0.6
