"""What the exponent histogram says, and how well."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.errors import MeasureError
from barograph.measures.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16
from barograph.measures.histogram import (
    cells,
    magnitude_quantile,
    magnitudes_of_bin,
    quantile,
    share_above,
    share_above_at_most,
    share_below,
    share_smaller,
    share_subnormal,
)
from barograph.measures.summary import summarize
from barograph.model.selection import Histogram
from barograph.model.summary import Summary

KINDS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8_e4m3": ml_dtypes.float8_e4m3fn,
         "fp8_e5m2": ml_dtypes.float8_e5m2}
normal_floats = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
quick = settings(max_examples=150, deadline=None, derandomize=True)


@quick
@given(st.lists(normal_floats, min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_has_the_sign_of_the_true_one_and_lies_within_a_factor_of_two(values, q):
    data = np.array(values, np.float32)
    true = float(np.quantile(data.astype(np.float64), q, method="lower"))
    estimate = quantile(summarize(data), q)
    assert math.copysign(1, estimate) == math.copysign(1, true) or estimate == true == 0
    assert abs(true) / 2 <= abs(estimate) <= abs(true) * 2


@quick
@given(st.lists(normal_floats, min_size=1, max_size=60), st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_quantiles_rise_with_their_share_and_stay_within_the_extremes(values, shares):
    seen = summarize(np.array(values, np.float32))
    estimates = [quantile(seen, q) for q in sorted(shares)]
    assert estimates == sorted(estimates)
    assert seen.min <= estimates[0]
    assert estimates[-1] <= seen.max


def test_the_outermost_quantiles_are_the_extremes():
    seen = summarize(np.float32([-7.5, 1, 2, 3.25]))
    assert (quantile(seen, 0), quantile(seen, 1)) == (-7.5, 3.25)


@quick
@given(st.lists(normal_floats, min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_of_magnitudes_lies_within_a_factor_of_two(values, q):
    data = np.abs(np.array([value for value in values if value] or [1.0], np.float32)).astype(np.float64)
    found = magnitude_quantile(summarize(np.array(values if any(values) else [1.0], np.float32)), q)

    lower, higher = (float(np.quantile(data, q, method=method)) for method in ("lower", "higher"))

    assert lower / 2 <= found <= higher * 2
    assert found <= data.max()


def test_quantiles_of_magnitudes_know_no_sign_and_no_zeros():
    seen = summarize(np.array([-4.0, 4.0, -0.5, 0.5, 0.0, 0.0, np.nan], np.float32))

    assert magnitude_quantile(seen, 0.25) == pytest.approx(2.0**-0.5)
    assert magnitude_quantile(seen, 1.0) == 4.0
    assert math.isnan(magnitude_quantile(summarize(np.zeros(3, np.float32)), 0.5))
    with pytest.raises(MeasureError, match="from 0 to 1"):
        magnitude_quantile(seen, 1.5)


def test_the_median_of_evenly_spread_values_is_near():
    assert quantile(summarize(np.linspace(1, 2, 1001)), 0.5) == pytest.approx(1.5, abs=0.01)


def test_the_quantile_of_a_sampled_histogram_counts_zeros_in_full():
    values = np.zeros(80_000, np.float32)
    values[:30_000] = 3.0
    seen = summarize(values, histogram=Histogram.SAMPLED)
    assert quantile(seen, 0.62) == 0
    assert 2 <= quantile(seen, 0.63) <= 3


@pytest.mark.parametrize("seen", [Summary(), Summary(count=2, nan=2), Summary(count=3, min=1.0, max=2.0)])
def test_where_there_is_nothing_to_say_it_says_nan(seen):
    assert math.isnan(quantile(seen, 0.5))
    assert math.isnan(share_below(seen, FP16))
    assert math.isnan(share_below(seen, BF16))
    assert math.isnan(share_above(seen, FP16))
    assert cells(seen) == []


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_share_that_is_none_is_refused(q):
    with pytest.raises(MeasureError, match="from 0 to 1"):
        quantile(Summary(), q)


def test_all_zeros_need_no_histogram():
    seen = Summary(count=4, zeros=4, min=0.0, max=0.0)
    assert quantile(seen, 0.5) == 0
    assert [tuple(cell) for cell in cells(seen)] == [(0.0, 0.0, 4.0)]


def test_bins_join_without_a_gap():
    edges = [magnitudes_of_bin(index) for index in range(255)]
    assert [high for _, high in edges[:-1]] == [low for low, _ in edges[1:]]
    assert edges[0][0] == 0
    assert edges[254][1] == 2.0**128


@pytest.mark.parametrize("exponent", [-126, -30, 0, 5, 127])
def test_the_share_below_a_power_of_two_is_exact(exponent):
    values = (2.0 ** np.linspace(-140, 127.9, 5001)).astype(np.float32)
    assert share_smaller(summarize(values), exponent) == np.count_nonzero(values < 2.0**exponent) / values.size


def random_magnitudes(fmt_name: str, n: int = 20_000) -> np.ndarray:
    random = np.random.default_rng(list(FORMATS).index(fmt_name))
    fmt = FORMATS[fmt_name]
    low, high = math.log2(fmt.smallest_subnormal) - 4, min(math.log2(fmt.largest) + 3, 127.9999)
    values = 2.0 ** random.uniform(low, high, n) * random.choice([-1, 1], n)
    values[: n // 10] = 0
    values[-1] = min(2 * fmt.largest, 3.4e38)
    return values.astype(np.float32)


@pytest.mark.parametrize("fmt", [FP16, FP8_E4M3, FP8_E5M2], ids=lambda fmt: fmt.name)
def test_what_a_format_flushes_or_holds_with_fewer_digits_is_counted_exactly(fmt):
    values = random_magnitudes(fmt.name)
    with np.errstate(over="ignore"):
        narrow = np.abs(values.astype(KINDS[fmt.name]).astype(np.float64))
    nonzero = np.count_nonzero(values)
    flushed = np.count_nonzero((narrow == 0) & (values != 0))
    subnormal = np.count_nonzero((np.abs(values) < fmt.smallest_normal) & (narrow > 0))
    assert share_below(summarize(values), fmt) == pytest.approx(flushed / nonzero, abs=1e-12)
    assert share_subnormal(summarize(values), fmt) == pytest.approx(subnormal / nonzero, abs=1e-12)


def test_what_bf16_flushes_lies_in_the_first_bin():
    values = random_magnitudes("bf16")
    flushed = np.count_nonzero((values.astype(ml_dtypes.bfloat16) == 0) & (values != 0)) / np.count_nonzero(values)
    seen = summarize(values)
    assert share_below(seen, BF16) == 0
    assert 0 < flushed <= share_subnormal(seen, BF16)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_what_overflows_a_format_lies_between_the_two_shares(fmt):
    values = random_magnitudes(fmt.name)
    with np.errstate(over="ignore"):
        overflowed = np.count_nonzero(~np.isfinite(values.astype(KINDS[fmt.name]).astype(np.float64)))
    seen = summarize(values)
    assert 0 < share_above(seen, fmt) <= overflowed / seen.nonzero <= share_above_at_most(seen, fmt)
    exponent = math.frexp(fmt.overflow_from)[1]  # 2**(exponent − 1) <= overflow_from < 2**exponent
    straddling = 1.0 if fmt is BF16 else share_smaller(seen, exponent)
    below = share_smaller(seen, exponent - 1)
    assert share_above_at_most(seen, fmt) - share_above(seen, fmt) <= straddling - below + 1e-12


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_in_range_to_the_last_digit_nothing_overflows_for_certain(fmt):
    held = np.array([fmt.largest, -fmt.largest, 1.0])
    assert share_above(summarize(held), fmt) == share_above_at_most(summarize(held), fmt) == 0


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_one_extreme_out_of_range_is_certain_though_no_sample_met_it(fmt):
    values = np.ones(80_000)
    values[1] = -fmt.overflow_from
    assert share_above(summarize(values, histogram=Histogram.SAMPLED), fmt) == 1 / 80_000
