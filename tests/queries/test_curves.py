"""Numbers over the steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.queries.curves import CurveMaker, curves_of


def test_a_curve_says_first_last_least_and_greatest_of_the_whole_series(diary: Any) -> None:
    for number, loss in enumerate([3.0, math.nan, 0.5, 7.0, 2.0]):
        diary.step(number, {"loss:total": loss})

    (curve,) = curves_of(diary.ended(), Kind.LOSS)

    assert (curve.key, curve.mode, curve.count, curve.nonfinite) == ("loss:total", "train", 5, 1)
    assert (curve.first, curve.last) == (3.0, 2.0)
    assert (curve.least, curve.least_step, curve.greatest, curve.greatest_step) == (0.5, 2, 7.0, 3)
    assert curve.steps == (0, 1, 2, 3, 4)


def test_training_and_evaluation_and_two_optimizers_are_curves_of_their_own(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0}, optimizer="a")
    diary.step(0, {"loss:total": 2.0}, optimizer="b")
    diary.step(1, {"loss:total": 3.0}, mode=Mode.EVAL)

    curves = curves_of(diary.ended(), Kind.LOSS)

    assert [(curve.mode, curve.optimizer, curve.last) for curve in curves] == [
        ("train", "a", 1.0), ("train", "b", 2.0), ("eval", "", 3.0),
    ]


def test_a_curve_made_in_parts_is_the_one_made_at_once() -> None:
    steps = np.arange(5000)
    values = np.sin(steps / 100.0)
    values[[1234, 4321]] = [99.0, -np.inf]
    whole, parts = (CurveMaker("x", Mode.TRAIN, "", low=0, high=4999) for _ in range(2))

    whole.add(steps, values)
    for first in range(0, 5000, 700):
        parts.add(steps[first : first + 700], values[first : first + 700])

    assert parts.curve() == whole.curve()
    assert 99.0 in whole.curve().values


def test_a_run_without_any_has_none(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0})

    assert curves_of(diary.ended(), Kind.SCALAR) == []
