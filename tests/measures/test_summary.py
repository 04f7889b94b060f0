"""The plain statistics: what they count, and how they merge."""

from __future__ import annotations

import math
import re
import struct

import ml_dtypes
import numpy as np
import pytest

from barograph.errors import ShapeMismatch, UnsupportedDtype
from barograph.measures.summary import (
    identity_rows,
    merge,
    merge_rows,
    row_from_summary,
    summarize,
    summary_from_row,
)
from barograph.model.selection import Histogram
from barograph.model.summary import Summary
from hypothesis import given, settings
from hypothesis import strategies as st

floats = st.floats(width=32)
lists = st.lists(floats, max_size=40)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def array(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def bin_of(x: float) -> int:
    """The bin read off the bits of a float32, as the model says it."""
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 23


@quick
@given(lists)
def test_agrees_with_the_definitions_written_element_by_element(values):
    seen = summarize(array(values))
    finite = [x for x in values if math.isfinite(x)]
    counted = [bin_of(x) for x in finite if x != 0]
    assert seen.count == len(values)
    assert seen.nan == sum(math.isnan(x) for x in values)
    assert seen.posinf == values.count(math.inf)
    assert seen.neginf == values.count(-math.inf)
    assert seen.zeros == sum(x == 0 for x in values)
    assert seen.min == min(finite, default=math.inf)
    assert seen.max == max(finite, default=-math.inf)
    assert seen.exponents == {index: counted.count(index) for index in sorted(counted)}
    bound = 2.0**-40 * math.fsum(map(abs, finite))
    assert seen.sum == pytest.approx(math.fsum(finite), rel=0, abs=bound)
    assert seen.sum_abs == pytest.approx(math.fsum(map(abs, finite)), rel=2.0**-40)
    assert seen.sum_sq == pytest.approx(math.fsum(x * x for x in finite), rel=2.0**-40)


def test_one_nan_does_not_blind_the_other_statistics():
    seen = summarize(array([1.0, math.nan, 3.0, -math.inf]))
    assert (seen.mean, seen.min, seen.max, seen.nan, seen.neginf) == (2.0, 1.0, 3.0, 1, 1)


def test_a_number_by_itself_is_one_element():
    assert summarize(np.array(2.5)).sum == 2.5
    assert summarize(np.array(2.5)).count == 1


def test_nothing_is_the_summary_that_changes_nothing():
    assert summarize(np.zeros((0, 3))) == Summary()
    assert merge() == Summary()


def test_the_layout_of_the_array_does_not_matter():
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert summarize(whole[::2, 1::3]) == summarize(np.array([1, 4, 13, 16], np.float32))
    assert summarize(whole.T) == summarize(whole)
    assert summarize(whole[::-1]) == summarize(whole)
    assert summarize(np.broadcast_to(np.float32(3), (5, 2))).sum == 30


def test_smallest_numbers_are_in_the_first_bin_and_are_not_zero():
    seen = summarize(array([1e-45, -1e-45, 2.0**-126, 0.0, -0.0]))
    assert seen.zeros == 2
    assert seen.exponents == {0: 1, 1: 1, 256: 1}


def test_float64_outside_the_range_of_float32_is_put_in_the_outer_bins():
    assert summarize(np.array([1e300, -1e300, 1e-300, -5e-324])).exponents == {0: 1, 254: 1, 256: 1, 510: 1}


@pytest.mark.parametrize(("dtype", "values", "expected"), [
    ("bool", [True, False, True], 2.0),
    ("int8", [-128, 127], -1.0),
    ("uint64", [2**63, 0], 2.0**63),
    ("float16", [65504.0, 6e-8], 65504.0 + 2.0**-24),
    ("complex64", [3 + 4j, 0], 5.0),
])
def test_elements_of_other_types_count_with_their_value(dtype, values, expected):
    assert summarize(np.array(values, dtype)).sum == expected


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_narrow_floats_are_widened_exactly(kind):
    seen = summarize(np.array([1.5, -0.25, 0.0, np.nan]).astype(kind))
    assert (seen.sum, seen.sum_sq, seen.zeros, seen.nan) == (1.25, 2.3125, 1, 1)


def test_a_complex_number_is_infinite_if_a_part_is_and_else_nan_if_a_part_is():
    seen = summarize(np.array([complex(math.inf, math.nan), complex(1, math.nan)]))
    assert (seen.posinf, seen.nan, seen.finite) == (1, 1, 0)


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([object()]), np.zeros(2, "datetime64[s]")])
def test_what_is_no_number_is_refused_by_name(values):
    with pytest.raises(UnsupportedDtype, match=re.escape(values.dtype.name)):
        summarize(values)


def test_no_histogram_is_taken_where_none_is_asked_for():
    assert summarize(array([1.0]), histogram=Histogram.NONE).exponents == {}


def test_a_sampled_histogram_of_a_large_tensor_holds_an_eighth():
    seen = summarize(np.ones(80_000, np.float32), histogram=Histogram.SAMPLED)
    assert seen.exponents == {127: 10_000}
    assert seen.count == 80_000


@quick
@given(st.lists(lists, max_size=5))
def test_merging_parts_gives_the_whole(parts):
    whole = summarize(array([x for part in parts for x in part]))
    merged = merge(*(summarize(array(part)) for part in parts))
    assert exact_part(merged) == exact_part(whole)
    assert merged.sum == pytest.approx(whole.sum, rel=0, abs=2.0**-40 * whole.sum_abs)
    assert merged.sum_sq == pytest.approx(whole.sum_sq, rel=2.0**-40)


@quick
@given(lists, lists, lists)
def test_the_order_of_merging_does_not_matter(first, second, third):
    a, b, c = (summarize(array(values)) for values in (first, second, third))
    left, right = merge(merge(a, b), c), merge(c, merge(b, a))
    assert exact_part(left) == exact_part(right)
    assert left.sum == pytest.approx(right.sum, rel=0, abs=2.0**-40 * left.sum_abs)


@quick
@given(lists)
def test_merging_with_nothing_changes_nothing(values):
    seen = summarize(array(values))
    assert merge(seen, Summary()) == merge(Summary(), seen) == seen


@quick
@given(lists)
def test_a_row_holds_all_of_a_summary(values):
    seen = summarize(array(values))
    assert summary_from_row(*row_from_summary(seen)) == seen


def test_rows_merge_row_by_row():
    rows = identity_rows(3)
    parts = [[1.0, 2.0], [], [math.nan, -5.0]]
    more = np.stack([row_from_summary(summarize(array(part)))[0] for part in parts])
    merge_rows(rows, more)
    merge_rows(rows, more)
    assert rows[0].tolist() == [4, 0, 0, 0, 0, 1.0, 2.0, 6.0, 10.0, 6.0]
    assert summary_from_row(rows[1]) == Summary()
    assert rows[2, :2].tolist() == [4, 2]


@pytest.mark.parametrize("shape", [(2, 10), (3, 9), (10,)])
def test_rows_of_other_shapes_are_not_merged(shape):
    with pytest.raises(ShapeMismatch):
        merge_rows(identity_rows(3), np.zeros(shape))


def test_a_sum_beyond_float64_is_infinite_and_raises_no_warning():
    seen = merge(*[summarize(np.array([1e308, 1e200]))] * 3)
    assert seen.sum == math.inf
    assert seen.sum_sq == math.inf
    assert seen.max == 1e308


def exact_part(summary: Summary) -> tuple[object, ...]:
    return (summary.count, summary.nan, summary.posinf, summary.neginf, summary.zeros, summary.min, summary.max,
            summary.exponents)
