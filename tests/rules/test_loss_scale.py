"""AmpScale: a gradient scaler that skips all the time, or whose scale collapses."""

from __future__ import annotations

import math

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.rules.base import Unjudged
from barograph.rules.loss_scale import AmpScale
from barograph.runs.reading.view import StepView
from literals import LOSS, RATE, causes, last, said, step, subjects

SCALE = fact(Fact.LOSS_SCALE)


def scaled(number: int, scale: float | None = 65536.0, *, skipped: bool = False, loss: float = 1.0) -> StepView:
    all_facts = {} if scale is None else {SCALE: scale}
    return step(number, {LOSS: loss, RATE: 0.1, **all_facts}, skipped=skipped)


def test_a_scaler_that_finds_its_scale_and_skips_now_and_then_is_well() -> None:
    begins = [scaled(number, 65536.0 / 2**number, skipped=True) for number in range(6)]
    goes_on = [scaled(number, 1024.0, skipped=number % 200 == 0) for number in range(6, 500)]

    assert subjects(AmpScale(), *begins, *goes_on) == [[]] * 500


def test_steps_skipped_one_after_another_are_too_many() -> None:
    views = [scaled(number, 65536.0 / 2**number, skipped=True) for number in range(15)]

    found = last(AmpScale(), *views)

    assert subjects(AmpScale(), *views)[-2] == []
    assert found.message == "The gradient scaler skipped 15 consecutive steps: gradients overflow at any scale."
    assert list(causes(found))[:2] == [Cause.LOSS_SCALE_COLLAPSE, Cause.FP16_OVERFLOW]
    assert "lower the learning rate from 0.1 to 0.01" in found.remedy


def test_every_other_step_skipped_is_too_much() -> None:
    views = [scaled(number, 1024.0, skipped=number % 2 == 0) for number in range(60)]

    assert subjects(AmpScale(), *views)[48:50] == [[], ["skipped"]]


def test_a_scale_below_one_has_collapsed() -> None:
    found = last(AmpScale(), scaled(0), scaled(10, 0.5))

    assert found.message.startswith("The loss scale fell from 65,500 to 0.5")
    assert (found.subject, found.evidence[0].key) == ("scale", SCALE)


def test_a_loss_of_nan_points_at_the_data_too() -> None:
    views = [scaled(number, 1024.0, skipped=True, loss=math.nan) for number in range(15)]

    assert causes(last(AmpScale(), *views))[Cause.NON_FINITE_INPUT] == 0.3


def test_without_a_scaler_nothing_is_judged() -> None:
    assert said(AmpScale(), scaled(0, None)) == [[Unjudged("no gradient scaler was recorded")]]
