"""Overtraining."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barograph.model.finding import Severity
from barograph.rules.base import Unjudged
from barograph.rules.overtraining import Overtraining
from barograph.runs.reading.view import StepView
from judging import CROSS_ENTROPY, evaluated, said, steps_of, symptoms


def epochs(training: Sequence[float], validation: Sequence[float]) -> list[StepView]:
    views = []
    for epoch, (train, valid) in enumerate(zip(training, validation, strict=True)):
        views += [StepView.of(epoch * 10 + step, {CROSS_ENTROPY: train}) for step in range(10)]
        views.append(evaluated((epoch + 1) * 10, {CROSS_ENTROPY: valid}))
    return views


def flat(count: int) -> list[StepView]:
    """Return epochs without an improvement, after all was learned in the first step."""
    return [StepView.of(0, {CROSS_ENTROPY: 2.3}), *epochs([0.5] * count, [0.6] * count)[1:]]


def test_training_that_brings_nothing_any_more_is_told() -> None:
    views = flat(30)

    first, *_ = symptoms(Overtraining(), views)

    assert steps_of(Overtraining(), views)[0] == 110
    assert first.message == ("No improvement since step 10: in 10 evaluations of the training loss (best 0.5) and 10 "
                             "of the validation loss (best 0.6).")
    assert first.since == 10
    assert Overtraining.severity is Severity.NOTE


@pytest.mark.parametrize("losses", [[2.303] * 30, [2.5, 2.31, *[2.303] * 28], [2.3, *[100.0] * 29]])
def test_a_model_that_has_not_learned_is_not_overtrained(losses: list[float]) -> None:
    assert steps_of(Overtraining(), epochs(losses, losses)) == []
    assert said(Overtraining(), epochs(losses[:1], losses[:1]))[-1] == [
        Unjudged("needs 11 evaluations; this run has 1")]


def test_a_training_loss_that_falls_on_is_let_pass() -> None:
    assert steps_of(Overtraining(), epochs([0.9**epoch for epoch in range(60)], [0.6] * 60)) == []


def test_a_model_that_has_converged_lately_is_let_pass() -> None:
    training = [max(0.1, 1.0 - 0.1 * epoch) for epoch in range(40)]

    assert steps_of(Overtraining(), epochs(training, training)) == []


def test_who_minds_waste_hears_of_it_sooner() -> None:
    training = [max(0.1, 1.0 - 0.1 * epoch) for epoch in range(40)]

    assert steps_of(Overtraining(wasted_share=0.5), epochs(training, training))[0] == 200


def test_without_evaluations_nothing_is_judged() -> None:
    assert said(Overtraining(), [StepView.of(0, {CROSS_ENTROPY: 1.0})]) == [
        [Unjudged("no evaluation was recorded after training")]
    ]
