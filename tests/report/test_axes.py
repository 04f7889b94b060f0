"""Scales of charts."""

from __future__ import annotations

import math

import pytest

from barograph.report.axes import axis_for


def test_numbers_that_span_decades_are_drawn_on_a_logarithmic_scale() -> None:
    assert axis_for([0.001, 1.0], 0, 100).log
    assert not axis_for([0.5, 1.0], 0, 100).log
    assert not axis_for([0.0, 1000.0], 0, 100).log


def test_the_ends_of_the_axis_are_its_pixels() -> None:
    axis = axis_for([2.0, 6.0], 100, 0)

    assert (axis.at(2.0), axis.at(4.0), axis.at(6.0)) == (100, 50, 0)


def test_a_span_beyond_the_greatest_number_has_a_middle() -> None:
    assert axis_for([-1e308, 1e308], 0, 100).at(0.0) == 50


def test_what_is_not_finite_has_no_place() -> None:
    axis = axis_for([1.0, math.nan, math.inf], 0, 100)

    assert math.isnan(axis.at(math.nan))
    assert math.isnan(axis.at(math.inf))


@pytest.mark.parametrize("values", [
    [], [math.nan], [3.0], [0.0], [-1e308, 1e308], [5e-324, 1e308], [1e-320, 1e-319], [1.0, 1.0 + 1e-15], [-7.0, -7.0],
    [1e308, 1.7e308],
])
def test_ticks_are_finite_rise_and_lie_on_the_axis(values: list[float]) -> None:
    for log in (None, False):
        axis = axis_for(values, 0, 100, log=log)
        ticks = axis.ticks()
        assert ticks == sorted(set(ticks))
        assert len(ticks) <= 12
        assert all(math.isfinite(tick) and 0 <= axis.at(tick) <= 100 for tick in ticks)


def test_round_numbers_are_told() -> None:
    assert axis_for([0.0, 1.0], 0, 100).ticks() == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert axis_for([0.001, 1000.0], 0, 100).ticks() == pytest.approx([0.001, 0.1, 10.0, 1000.0])


def test_bytes_are_told_in_round_powers_of_1024() -> None:
    ticks = axis_for([0.0, 1.1 * 2**30], 0, 100, log=False, binary=True).ticks()

    assert ticks == pytest.approx([0.0, 0.25 * 2**30, 0.5 * 2**30, 0.75 * 2**30, 2**30])
