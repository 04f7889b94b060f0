"""Numbers over the steps: first, last and least of all values, few of them in JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from barograph.model.key import key_from_text
from barograph.model.step import Mode
from barograph.queries.numbers import Number, numbers_of, thinned, without_repeats
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series

Training = Any  # of watched.py


def number(*values: float) -> Number:
    count = len(values)
    series = Series(key_from_text("loss:total"), "value", np.arange(count), np.array(values), np.zeros(count))
    return Number(series, Mode.TRAIN, "")


def test_first_last_and_least_are_of_all_values() -> None:
    loss = number(3.0, math.nan, 1.0, math.inf)

    assert (loss.first, loss.last, loss.least()) == (3.0, math.inf, (1.0, 2))


def test_a_number_that_is_never_finite_has_no_least_value() -> None:
    least, step = number(math.nan).least()

    assert (math.isnan(least), step) == (True, -1)


def test_json_has_at_most_200_points_and_the_last() -> None:
    data = number(*range(1001)).to_json()

    assert (data["count"], data["last"], data["least"], data["least_step"]) == (1001, 1000.0, 0.0, 0)
    assert len(data["steps"]) <= 200
    assert data["steps"][-1] == 1000


def test_the_extremes_are_among_the_points() -> None:
    values = [0.0] * 10_001
    values[777], values[5_005], values[9_999] = 9.0, -9.0, math.nan

    data = number(*values).to_json()

    assert {9.0, -9.0, None} <= set(data["values"])
    assert {777, 5_005, 9_999} <= set(data["steps"])


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 1000])
def test_few_points_are_left_and_the_last_is_one(count: int) -> None:
    steps, values = thinned(range(count), [float(step) for step in range(count)])

    assert len(steps) == len(values) <= 200
    assert steps[-1] == count - 1


def test_the_numbers_of_a_run_are_read(training: Training) -> None:
    training.steps(2.0, 3.0)
    training.end()

    (loss,) = numbers_of(RunReader(training.store))

    assert (str(loss.series.key), loss.series.values.tolist()) == ("loss:total", [2.0, 3.0])


def loss(key: str, *values: float, mode: Mode = Mode.TRAIN) -> Number:
    count = len(values)
    return Number(Series(key_from_text(key), "value", np.arange(count), np.array(values), np.zeros(count)), mode, "")


def test_a_total_loss_that_is_the_only_loss_is_left_out() -> None:
    total, part = loss("loss:total", 2.0, math.nan), loss("loss:cross_entropy", 2.0, math.nan)
    in_evaluation = loss("loss:total", 2.0, math.nan, mode=Mode.EVAL)

    assert without_repeats([total, part, in_evaluation]) == [part, in_evaluation]


def test_a_total_loss_of_several_stays() -> None:
    numbers = [loss("loss:total", 3.0), loss("loss:kl", 1.0), loss("loss:reconstruction", 2.0)]

    assert without_repeats(numbers) == numbers


def test_a_number_that_never_changes_is_constant() -> None:
    assert (number(0.1, 0.1).constant, number(0.1).constant, number(0.1, 0.2).constant,
            number(math.nan, math.nan).constant) == (True, False, False, False)
    assert loss("scalar:hyperparameter[eta]", 0.3).constant
