"""Reference of the statistics of a tensor: computing and merging them, in float64 and NumPy.

`measures.native` is the fast implementation.

Error bound of both: counts, extremes and bins are exact. Each of the three sums is within 2**-17 of the sum of
the magnitudes of its terms from the exact value: |sum − Σx| <= 2**-17 Σ|x|, likewise for sum_abs and for sum_sq
with Σx². The reference itself is within 2**-40. A sum that leaves the range of float64 on the way is infinite
or NaN, and squares below its range count as 0: that takes elements of float64 beyond 1e154 or all below 1e-154.

Merging adds float64 numbers, so a merge of m summaries adds at most m · 2**-53 to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from barograph.errors import ShapeMismatch
from barograph.measures.elements import values_as_float64
from barograph.measures.sampling import sampled_indices
from barograph.model.selection import Histogram
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS, UNIT_FIELDS, Summary

_MIN, _MAX = MOMENT_FIELDS.index("min"), MOMENT_FIELDS.index("max")
_UNIT_MIN, _UNIT_MAX = UNIT_FIELDS.index("min"), UNIT_FIELDS.index("max")
_COUNTS = MOMENT_FIELDS.index("zeros") + 1
_BLOCK = 1 << 18


def summarize(array: NDArray[Any], *, histogram: Histogram = Histogram.EXACT) -> Summary:
    """Return the Summary of all elements of `array`.

    Args:
        array: Any shape, () and empty ones included, and any layout; elements of a type in
            `measures.elements.DTYPE_CODES`. Complex elements are summarized by magnitude.
            histogram: Sampling of the exponent histogram.

    Returns:
        A Summary; for an empty array `Summary()`, the identity of `merge`.

    Raises:
        UnsupportedDtype: No statistics are defined for this type of element.

    Example:
        >>> summarize(np.array([1.0, -3.0, 0.0, np.nan])).mean_abs
        1.3333333333333333
        >>> dict(summarize(np.array([1.0, -3.0])).exponents)  # 1 lies in [1, 2), −3 in (−4, −2]
        {127: 1, 384: 1}
    """
    values = values_as_float64(np.asarray(array))
    bins = exponents_of_values(sampled(values, histogram)) if histogram else None
    return summary_from_row(moments_of_values(values), bins)


def merge(*summaries: Summary) -> Summary:
    """Return the Summary of the union of disjoint sets of elements.

    Counts, extremes and bins are exact in any order; sums are added in float64. Histograms with
    different sampling rates (small tensors are counted completely) are added as they are.

    Returns:
        The merged Summary; `Summary()` for none.

    Example:
        >>> merge(summarize(np.array([1.0, 2.0])), summarize(np.array([6.0]))).mean
        3.0
    """
    rows = identity_rows(1)
    bins = np.zeros(EXPONENT_BINS, np.int64)
    for summary in summaries:
        moments, exponents = row_from_summary(summary)
        merge_rows(rows, moments[np.newaxis])
        bins += exponents
    return summary_from_row(rows[0], bins)


def identity_rows(n: int) -> NDArray[np.float64]:
    """Return n identity rows for merging: counts and sums 0, min +inf, max −inf.

    Returns:
        Shape (n, 10), columns as in `MOMENT_FIELDS`.

    Example:
        >>> identity_rows(1)
        array([[  0.,   0.,   0.,   0.,   0.,  inf, -inf,   0.,   0.,   0.]])
    """
    rows = np.zeros((n, len(MOMENT_FIELDS)))
    rows[:, _MIN] = np.inf
    rows[:, _MAX] = -np.inf
    return rows


def merge_rows(into: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    """Merge each row of moments of `other` into the same row of `into`, in place.

    Merge histograms with `+=`.

    Args:
        into, other: Shape (n, 10), columns as in `MOMENT_FIELDS`.

    Raises:
        ShapeMismatch: The shapes differ, or are not (n, 10).

    Example:
        >>> rows = identity_rows(1)
        >>> merge_rows(rows, moments_of_values(np.array([2.0, 4.0]))[np.newaxis])
        >>> rows[0, 0], rows[0, 7]
        (np.float64(2.0), np.float64(6.0))
    """
    if into.shape != other.shape or into.ndim != 2 or into.shape[1] != len(MOMENT_FIELDS):
        raise ShapeMismatch(f"Rows of shape {other.shape} cannot be merged into rows of shape {into.shape}; "
                            f"both must be (n, {len(MOMENT_FIELDS)}).")
    low = np.minimum(into[:, _MIN], other[:, _MIN])
    high = np.maximum(into[:, _MAX], other[:, _MAX])
    with np.errstate(all="ignore"):  # sums beyond the range of float64 are inf or NaN
        into += other
    into[:, _MIN] = low
    into[:, _MAX] = high


def merge_unit_columns(into: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    """Merge the per-unit statistics of `other` into those of the same units in `into`, in place.

    Args:
        into, other: Shape (units, 7), columns as in `UNIT_FIELDS`.

    Raises:
        ShapeMismatch: The shapes differ, or are not (units, 7).

    Example:
        >>> into = np.array([[1.0, 0, 0, -1.0, 2.0, 1.0, 5.0]])
        >>> merge_unit_columns(into, np.array([[2.0, 0, 0, 0.0, 3.0, 3.0, 9.0]]))
        >>> into.tolist()
        [[3.0, 0.0, 0.0, -1.0, 3.0, 4.0, 14.0]]
    """
    if into.shape != other.shape or into.ndim != 2 or into.shape[1] != len(UNIT_FIELDS):
        raise ShapeMismatch(f"Units of shape {other.shape} cannot be merged into units of shape {into.shape}; "
                            f"both must be (units, {len(UNIT_FIELDS)}).")
    low = np.minimum(into[:, _UNIT_MIN], other[:, _UNIT_MIN])
    high = np.maximum(into[:, _UNIT_MAX], other[:, _UNIT_MAX])
    with np.errstate(all="ignore"):
        into += other
    into[:, _UNIT_MIN] = low
    into[:, _UNIT_MAX] = high


def summary_from_row(moments: NDArray[np.float64], exponents: NDArray[np.int64] | None = None) -> Summary:
    """Return the Summary of one row of moments and one of the histogram.

    Args:
        moments: Shape (10,), columns as in `MOMENT_FIELDS`.
        exponents: Shape (512,); None without a histogram.

    Example:
        >>> summary_from_row(identity_rows(1)[0]) == Summary()
        True
    """
    values = moments.tolist()
    bins: Mapping[int, int] = {}
    if exponents is not None:
        filled = np.flatnonzero(exponents)
        bins = dict(zip(filled.tolist(), exponents[filled].tolist(), strict=True))
    fields = dict(zip(MOMENT_FIELDS, [*map(int, values[:_COUNTS]), *values[_COUNTS:]], strict=True))
    return Summary(**fields, exponents=bins)


def row_from_summary(summary: Summary) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a Summary as a row of moments, shape (10,), and one of the histogram, shape (512,).

    Example:
        >>> moments, exponents = row_from_summary(Summary(count=3, zeros=3, min=0.0, max=0.0))
        >>> moments.shape, int(exponents.sum())
        ((10,), 0)
    """
    exponents = np.zeros(EXPONENT_BINS, np.int64)
    for index, count in summary.exponents.items():
        exponents[index] = count
    return np.array([getattr(summary, name) for name in MOMENT_FIELDS], np.float64), exponents


def moments_of_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the row of moments, shape (10,), of a flat float64 array.

    Example:
        >>> moments_of_values(np.array([0.0, -2.0, np.inf])).tolist()
        [3.0, 0.0, 1.0, 0.0, 1.0, -2.0, 0.0, -2.0, 4.0, 2.0]
    """
    rows = identity_rows(1)
    for start in range(0, values.size, _BLOCK):
        merge_rows(rows, _moments_of_block(values[start : start + _BLOCK])[np.newaxis])
    return cast("NDArray[np.float64]", rows[0])


def exponents_of_values(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of finite nonzero elements in each of the 512 bins (see `EXPONENT_BINS`).

    Example:
        >>> np.flatnonzero(exponents_of_values(np.array([1.5, 1e-45, 1e300, 0.0, np.nan]))).tolist()
        [0, 127, 254]
    """
    counted = values[np.isfinite(values) & (values != 0)]
    _, exponent = np.frexp(counted)  # |x| = m · 2**exponent with 1/2 <= m < 1, and 2**(field − 127) <= |x|
    field = np.clip(exponent.astype(np.int64) + 126, 0, 254)
    return np.bincount(field + 256 * (counted < 0), minlength=EXPONENT_BINS).astype(np.int64)


def sampled(values: NDArray[np.float64], histogram: Histogram) -> NDArray[np.float64]:
    """Return the flat `values` that a histogram of this kind counts."""
    return values[sampled_indices(values.size)] if histogram == Histogram.SAMPLED else values


def _moments_of_block(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        return np.array([
            values.size,
            np.count_nonzero(np.isnan(values)),
            np.count_nonzero(values == np.inf),
            np.count_nonzero(values == -np.inf),
            np.count_nonzero(values == 0),
            finite.min(initial=np.inf),
            finite.max(initial=-np.inf),
            finite.sum(),
            np.square(finite).sum(),
            np.abs(finite).sum(),
        ])
