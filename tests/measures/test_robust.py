"""Level, spread and slope that a few wild values do not move."""

from __future__ import annotations

import math

import numpy as np
import pytest

from barograph.measures.robust import SIGMA_PER_MAD, extended, level, robust_z, slope
from hypothesis import given, settings
from hypothesis import strategies as st

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
quick = settings(max_examples=80, deadline=None, derandomize=True)


@quick
@given(values)
def test_agrees_with_the_formula_written_plainly(history):
    center = float(np.median(history))
    assert level(history).center == pytest.approx(center)
    assert level(history).spread == pytest.approx(1.4826 * float(np.median(np.abs(np.array(history) - center))))


def test_of_normal_values_the_spread_is_the_standard_deviation():
    history = np.random.default_rng(0).normal(5.0, 2.0, 20_001).tolist()
    assert level(history).center == pytest.approx(5.0, abs=0.1)
    assert level(history).spread == pytest.approx(2.0, rel=0.03)


@quick
@given(st.lists(st.floats(-1, 1), min_size=11, max_size=11), st.lists(st.floats(-1e9, 1e9), max_size=10))
def test_wild_values_fewer_than_half_do_not_move_the_level_out_of_the_others(good, wild):
    assert min(good) <= level([*good, *wild]).center <= max(good)


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out(strange):
    assert level([1.0, strange, 2.0, 3.0]) == level([1.0, 2.0, 3.0])
    assert slope([0.0, strange, 2.0, 3.0]) == 1.0


def test_of_nothing_there_is_no_level_and_no_slope():
    assert math.isnan(level([]).center)
    assert math.isnan(level([math.nan]).spread)
    assert math.isnan(robust_z(1.0, []))
    assert math.isnan(slope([1.0]))


@pytest.mark.parametrize(("value", "history", "floor", "expected"), [
    (3.0, [1.0, 2.0, 3.0], 0.0, 1 / SIGMA_PER_MAD),
    (1.0, [1.0, 1.0], 0.0, 0.0),
    (2.0, [1.0, 1.0], 0.0, math.inf),
    (0.0, [1.0, 1.0], 0.0, -math.inf),
    (2.0, [1.0, 1.0], 0.5, 2.0),
    (math.inf, [1.0, 2.0, 3.0], 0.0, math.inf),
    (math.nan, [1.0, 2.0, 3.0], 0.0, math.nan),
])
def test_the_edges_of_z_are_as_documented(value, history, floor, expected):
    assert robust_z(value, history, floor=floor) == pytest.approx(expected, nan_ok=True)


@quick
@given(st.floats(-100, 100), st.floats(-100, 100), st.integers(2, 20))
def test_a_straight_line_has_its_own_slope(rise, start, n):
    assert slope([start + rise * i for i in range(n)]) == pytest.approx(rise, abs=1e-9)


def test_a_quarter_of_wild_values_does_not_turn_the_slope():
    series = [2.0 * i for i in range(20)]
    series[3] = series[8] = series[13] = series[18] = 1e9
    assert 1.5 <= slope(series) <= 2.5


def test_positions_stretch_the_slope():
    assert slope([0.0, 1.0, 2.0], positions=[0.0, 10.0, 20.0]) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="zip"):
        slope([0.0, 1.0], positions=[0.0])


def test_a_window_forgets_its_oldest():
    assert extended([], 1.0, 2) == [1.0]
    assert extended([1.0, 2.0], 3.0, 2) == [2.0, 3.0]
