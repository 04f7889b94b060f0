"""A tensor over the steps: its histogram adds up, and a dead unit is counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from barograph.errors import UnknownKey, UnknownStep
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords, Subject, UnitSummaries
from barograph.model.step import Mode, Step
from barograph.queries.tensor_history import LIMITS, exponent_map, keys_of_layer, units_at

KEY = Key(Kind.GRADIENT, "fc.weight")


def test_each_magnitude_is_in_its_row_and_each_column_adds_up(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [1.5, -3.0, 0.0, 8.0]})
    diary.step(5, {}, {"gradient:fc.weight": [1.0, math.nan, 0.0, 0.0]})

    found = exponent_map(diary.ended(), KEY)

    assert (found.steps, found.exponents) == (((0, 0), (5, 5)), (0, 1, 2, 3))
    assert found.shares == ((0.25, 0.25, 0.0, 0.25), (0.25, 0.0, 0.0, 0.0))
    assert (found.zeros, found.nonfinite, found.count) == ((0.25, 0.5), (0.0, 0.25), 4)


def test_columns_of_several_steps_add_their_histograms(diary: Any) -> None:
    for number in range(100):
        diary.step(number, {}, {"gradient:fc.weight": [1.0, 2.0 if number == 42 else 1.0]})

    found = exponent_map(diary.ended(), KEY, columns=10)

    assert len(found.steps) == 10
    assert found.steps[4] == (40, 49)
    assert found.shares[4] == pytest.approx((0.95, 0.05))


def test_a_tensor_without_histogram_is_named(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [1.0]}, histogram=False)

    with pytest.raises(UnknownKey, match=r"No histogram of gradient:fc\.weight"):
        exponent_map(diary.ended(), KEY)


def test_the_limits_are_those_of_the_formats() -> None:
    limits = {limit.name: limit.log2 for limit in LIMITS}

    assert limits["fp16 smallest normal"] == -14.0
    assert limits["bf16 smallest normal"] == -126.0
    assert limits["fp8_e4m3 max"] == math.log2(448.0)


def test_the_keys_of_a_layer_are_its_own(diary: Any) -> None:
    diary.step(0, {}, {"gradient:fc.weight": [1.0], "gradient:fc.bias": [1.0], "gradient:fc.in.weight": [1.0]})
    diary.step(0, {}, {"gradient:fc.other": [1.0]}, mode=Mode.EVAL)

    assert [str(key) for key in keys_of_layer(diary.ended(), "fc", Kind.GRADIENT)] == [
        "gradient:fc.bias", "gradient:fc.weight"]


def test_units_are_those_of_the_last_step_that_has_them(diary: Any) -> None:
    diary.begin()
    columns = np.array([[4.0, 0, 0, 0, 0, 0, 0.0], [1.0, 0, 0, 0, 3, 3, 16.0]])
    moments, _ = row_from_summary(summarize(np.ones(8, np.float32)))
    diary.writers["p0"].put(StepRecords(
        Step(0, 3, "", Mode.TRAIN, time_unix=0.0), (Subject(KEY, "Linear", "float32"),), moments[None],
        units={0: UnitSummaries(4, columns)}))
    run = diary.ended()

    found = units_at(run, KEY, 10)

    assert (found.step, found.count, found.elements, found.dead) == (3, 2, 4, 1)
    assert (found.zeros, found.rms) == ((1.0, 0.25), (0.0, 2.0))
    with pytest.raises(UnknownStep):
        units_at(run, Key(Kind.OUTPUT, "fc"), 3)


def test_a_tensor_of_zeros_has_columns_without_rows(diary: Any) -> None:
    for number in range(3):
        diary.step(number, {}, {"output:relu": [0.0, 0.0]})

    found = exponent_map(diary.ended(), Key(Kind.OUTPUT, "relu"))

    assert (found.steps, found.exponents, found.zeros) == (((0, 0), (1, 1), (2, 2)), (), (1.0, 1.0, 1.0))
