"""Distributions over the steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from barograph.queries.distributions import MOST_TENSORS, QUANTILES, distributions_in


def test_quantiles_of_magnitudes_are_within_a_factor_of_two(diary: Any) -> None:
    values = np.random.default_rng(0).normal(size=4000).astype(np.float32)
    values[:1000] = 0.0
    values[-2:] = np.nan
    diary.step(0, tensors={"weight:fc.weight": values})

    (found,), left_out = distributions_in(diary.ended(), [])

    magnitudes = np.abs(values[1000:-2])
    for q, seen in zip(QUANTILES, found.quantiles[0], strict=True):
        assert 0.5 <= seen / np.quantile(magnitudes, q) <= 2.0
    assert found.zeros == (0.25,)
    assert found.nonfinite == (2,)
    assert left_out == 0


def test_steps_without_a_histogram_are_passed_over(diary: Any) -> None:
    for number in range(6):
        diary.step(number, tensors={"weight:fc.weight": [1.0, 2.0]}, histogram=number % 2 == 0)

    (found,), _ = distributions_in(diary.ended(), [])

    assert found.steps == (0, 2, 4)


@pytest.mark.parametrize("dead", [0.0, math.nan])
def test_a_tensor_that_dies_is_told_of_to_the_end_and_the_others_too(diary: Any, dead: float) -> None:
    for number in range(4):
        diary.step(number, tensors={"weight:a": [1.0, 2.0] if number < 2 else [dead, dead], "weight:b": [1.0, 2.0]})

    (first, other), _ = distributions_in(diary.ended(), [])

    assert first.steps == other.steps == (0, 1, 2, 3)
    assert all(math.isnan(value) for value in first.quantiles[-1])
    assert (first.zeros[-1] == 1.0, first.nonfinite[-1]) == (dead == 0.0, 0 if dead == 0.0 else 2)
    assert first.quantiles[0] == other.quantiles[-1]


def test_of_a_long_run_a_few_steps_are_taken_the_first_and_the_last_among_them(diary: Any) -> None:
    for number in range(100):
        diary.step(number, tensors={"weight:fc.weight": [1.0, 2.0]})

    (found,), _ = distributions_in(diary.ended(), [])

    assert len(found.steps) == 16
    assert (found.steps[0], found.steps[-1]) == (0, 99)


def test_a_name_with_brackets_is_no_pattern(diary: Any) -> None:
    diary.step(0, tensors={"weight:h[0].*": [1.0, 2.0]})

    (found,), _ = distributions_in(diary.ended(), [])

    assert found.key == "weight:h[0].*"


def test_each_optimizer_has_its_tensors(diary: Any) -> None:
    diary.step(0, tensors={"weight:generator.weight": [1.0]}, optimizer="generator")
    diary.step(0, tensors={"weight:critic.weight": [2.0]}, optimizer="critic")

    found, _ = distributions_in(diary.ended(), [])

    assert {item.key for item in found} == {"weight:generator.weight", "weight:critic.weight"}


def test_where_no_histogram_was_taken_there_is_none(diary: Any) -> None:
    diary.step(0, tensors={"weight:fc.weight": [1.0, 2.0]}, histogram=False)

    assert distributions_in(diary.ended(), []) == ((), 0)


def test_a_tensor_of_zeros_alone_has_no_magnitudes_to_tell(diary: Any) -> None:
    diary.step(0, tensors={"weight:fc.weight": [1.0, 2.0], "weight:fc.bias": [0.0]})

    found, _ = distributions_in(diary.ended(), [])

    assert [item.key for item in found] == ["weight:fc.weight"]


def test_of_very_many_tensors_every_kind_has_its_share(diary: Any) -> None:
    names = [f"{kind}:l{number}.weight" for kind in ("weight", "gradient") for number in range(40)]
    diary.step(0, tensors={name: [1.0, math.pi] for name in names})

    found, left_out = distributions_in(diary.ended(), [])

    assert len(found) == MOST_TENSORS
    assert left_out == 80 - MOST_TENSORS
    assert sum(item.key.startswith("gradient") for item in found) == MOST_TENSORS // 2


@pytest.mark.parametrize("value", [1e-45, 3e38])
def test_extreme_magnitudes_stay_finite(diary: Any, value: float) -> None:
    diary.step(0, tensors={"weight:fc.weight": [value]})

    (found,), _ = distributions_in(diary.ended(), [])

    assert all(0 < seen < math.inf for seen in found.quantiles[0])
