"""The bound of the sums: within 2**-17 of the sum of the magnitudes of the terms, however large, small or mixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from barograph.measures import native
from barograph.measures.elements import DTYPE_CODES
from barograph.measures.summary import identity_rows
from hypothesis import given, settings
from hypothesis import strategies as st

BOUND = 2.0**-17


def row_of(loops, values: np.ndarray) -> np.ndarray:
    moments = identity_rows(1)
    loops.summarize_into(values.ctypes.data, values.size, DTYPE_CODES[values.dtype.name], moments, 0, None, 0)
    return moments[0]


def assert_within_the_bound(row: np.ndarray, values: np.ndarray) -> None:
    exact = values.astype(np.float64)
    magnitude, square = math.fsum(np.abs(exact)), math.fsum(exact * exact)
    assert abs(row[7] - math.fsum(exact)) <= BOUND * magnitude
    assert abs(row[8] - square) <= BOUND * square
    assert abs(row[9] - magnitude) <= BOUND * magnitude


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 2e-18, 1e-17, 1.0, 1e18, 1.8e19, 1e30, 1e38])
@pytest.mark.parametrize("size", [5, 2048, 20_001])
def test_at_every_scale(loops, scale, size):
    values = (np.random.default_rng(size).standard_normal(size).clip(-3, 3) * scale).astype(np.float32)
    assert_within_the_bound(row_of(loops, values), values)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150])
def test_at_every_scale_of_float64(loops, scale):
    values = np.random.default_rng(1).standard_normal(5000) * scale
    assert_within_the_bound(row_of(loops, values), values)


def test_where_every_addition_rounds_the_same_way(loops):
    # Each lane holds a large first element, to which the others add less than half of its last digit.
    values = np.full(2048, 2.0**-25, np.float32)
    values[:32] = 1.0
    assert_within_the_bound(row_of(loops, values), values)


def test_where_large_elements_cancel(loops):
    values = np.tile(np.array([1e6, -1e6], np.float32), 4000)
    values[7777] = 1.0
    assert_within_the_bound(row_of(loops, values), values)


def test_where_one_large_element_stands_among_tiny_ones(loops):
    values = np.full(6000, 1e-25, np.float32)
    values[3000] = 1e-12
    assert_within_the_bound(row_of(loops, values), values)


def test_where_scales_change_from_block_to_block(loops):
    values = np.repeat(np.float32([1e-30, 1.0, 1e30, 0.0, 1e-44, 3e38]), 2048)
    assert_within_the_bound(row_of(loops, values), values)


@pytest.mark.skipif(not native.available(), reason="the native loop is not built here")
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=200), st.integers(1, 30))
def test_for_whatever_numbers_are_thought_of(pattern, repeats):
    values = np.array(pattern * repeats, np.float32)
    assert_within_the_bound(row_of(native._loops, values), values)
