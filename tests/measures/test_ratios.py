"""Ratios, their plain formulas and their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from barograph.measures.ratios import magnitude_ratio, quotient, relative_gap, update_ratio, variance_spread
from barograph.measures.summary import summarize
from barograph.model.summary import Summary

ZEROS = summarize(np.zeros(3))
ONES = summarize(np.ones(3))
BROKEN = summarize(np.array([1.0, math.nan]))


def test_a_step_a_thousandth_of_the_weight_gives_one_thousandth():
    weight = np.array([3.0, 4.0])
    assert update_ratio(summarize(weight / 1000), summarize(weight)) == pytest.approx(0.001)


@pytest.mark.parametrize(("update", "weight", "expected"), [
    (ZEROS, ONES, 0.0), (ZEROS, ZEROS, 0.0), (ONES, ZEROS, math.inf),
    (BROKEN, ONES, math.nan), (ONES, BROKEN, math.nan), (Summary(), ONES, math.nan), (ONES, Summary(), math.nan),
])
def test_the_edges_of_the_update_ratio_are_as_documented(update, weight, expected):
    assert update_ratio(update, weight) == pytest.approx(expected, nan_ok=True)


def test_epsilon_keeps_the_ratio_of_a_zero_weight_finite():
    assert update_ratio(ONES, ZEROS, epsilon=1e-3) == pytest.approx(math.sqrt(3) / 1e-3)


@pytest.mark.parametrize(("one", "other", "expected"), [
    (summarize(np.array([2.0, -4.0])), ONES, 3.0), (ONES, ZEROS, math.inf), (ZEROS, ZEROS, 0.0),
    (ONES, Summary(), math.nan), (BROKEN, ONES, 1.0),
])
def test_magnitudes_are_compared_over_finite_elements(one, other, expected):
    assert magnitude_ratio(one, other) == pytest.approx(expected, nan_ok=True)


def test_the_spread_of_variances_is_the_largest_over_the_smallest():
    layers = [summarize(np.array([-k, k])) for k in (1.0, 3.0, 2.0)]
    assert variance_spread(layers) == pytest.approx(9.0)


@pytest.mark.parametrize(("layers", "expected"), [
    ([], math.nan), ([ONES], math.nan), ([ONES, Summary()], math.nan), ([ZEROS, ONES], 1.0),
    ([ZEROS, summarize(np.array([-1.0, 1.0]))], math.inf),
])
def test_the_edges_of_the_spread_are_as_documented(layers, expected):
    assert variance_spread(layers) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("value", "base", "expected"), [
    (1.1, 1.0, 0.1), (0.5, 1.0, -0.5), (-1.0, -2.0, 0.5), (0.0, 0.0, 0.0), (-2.0, 0.0, -math.inf),
    (math.nan, 1.0, math.nan),
])
def test_a_gap_is_a_share_of_the_size_of_its_base(value, base, expected):
    assert relative_gap(value, base) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("numerator", "denominator", "expected"), [
    (1.0, 2.0, 0.5), (0.0, 0.0, 0.0), (1.0, 0.0, math.inf), (-1.0, 0.0, -math.inf), (math.nan, 0.0, math.nan),
    (1.0, math.nan, math.nan),
])
def test_a_quotient_has_an_answer_for_every_pair(numerator, denominator, expected):
    assert quotient(numerator, denominator) == pytest.approx(expected, nan_ok=True)
