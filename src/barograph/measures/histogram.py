"""Quantiles, and shares outside the range of a number format, from the exponent histogram of a Summary.

A bin counts the elements of one sign with a magnitude between two powers of two. Results are exact for powers of
two, and within a factor of two for other values; each function documents it.

Counts of a sampled histogram are scaled up, and each share p from m sampled elements has the standard error of a
sample, about sqrt(p (1 − p) / m). Zeros and nonfinite elements are always counted exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from barograph.errors import MeasureError
from barograph.measures.formats import NumberFormat
from barograph.model.summary import Summary

_SIGN = 256


class Cell(NamedTuple):
    """An interval of values and the number of elements in it.

    Attributes:
        lower, upper: Bounds. For positive values `upper` is exclusive, for negative ones `lower`; zero is a cell of
            its own, with both 0.
        weight: Number of elements, scaled up if the histogram was sampled.
    """

    lower: float
    upper: float
    weight: float


def magnitudes_of_bin(index: int) -> tuple[float, float]:
    """Return the smallest magnitude in the bin and the smallest above it.

    Bin 0 (and 256) begins at 0; elements of wider types beyond float32's range are in the last bin.

    Example:
        >>> magnitudes_of_bin(127), magnitudes_of_bin(128 + 256)
        ((1.0, 2.0), (2.0, 4.0))
    """
    field = index % _SIGN
    return (math.ldexp(1.0, field - 127) if field else 0.0), math.ldexp(1.0, field - 126)


def cells(summary: Summary) -> list[Cell]:
    """Return the nonempty bins and the zeros as cells, in ascending order.

    Returns:
        Cells whose weights add up to `summary.finite`; empty if there is no histogram and an element is not
        zero.

    Example:
        >>> [tuple(cell) for cell in cells(Summary(count=5, zeros=2, exponents={127: 1, 384: 2}))]
        [(-4.0, -2.0, 2.0), (0.0, 0.0, 2.0), (1.0, 2.0, 1.0)]
    """
    if not has_histogram(summary):
        return []
    scale = _scale(summary)
    negative = [Cell(-high, -low, count * scale) for count, (low, high) in _filled(summary, sign=1)]
    positive = [Cell(low, high, count * scale) for count, (low, high) in _filled(summary, sign=0)]
    zero = [Cell(0.0, 0.0, float(summary.zeros))] if summary.zeros else []
    return [*reversed(negative), *zero, *positive]


def has_histogram(summary: Summary) -> bool:
    """Return whether the finite elements have a histogram: one was recorded, or all are zero."""
    return bool(summary.exponents) or summary.nonzero == 0


def quantile(summary: Summary, q: float) -> float:
    """Return an approximate quantile of the finite elements.

    It approximates the element of rank floor(q · (finite − 1)), the result of `numpy.quantile(…, method="lower")`, by
    interpolation in its bin, limited to the extremes.

    Args:
        summary: A summary with a histogram.
        q: From 0 (the minimum) to 1 (the maximum).

    Returns:
        A value of the same sign as that element and within a factor of two of it; the same if it is 0, or an
        extreme. Elements outside float32's normal range share the first or the last bin: there only the sign and
        the extremes hold. NaN without a histogram or finite elements. From a sampled histogram, that
        of a neighboring rank.

    Raises:
        MeasureError: `q` is not from 0 to 1.

    Example:
        >>> quantile(Summary(count=4, min=-3.5, max=1.5, exponents={127: 1, 384: 3}), 0.5)
        -3.0
    """
    if not 0 <= q <= 1:
        raise MeasureError(f"q is {q}; it must be from 0 to 1.")
    if not summary.finite or not has_histogram(summary):
        return math.nan
    rank = math.floor(q * (summary.finite - 1))
    if rank == 0 or rank == summary.finite - 1:
        return summary.max if rank else summary.min
    return min(max(_value_at(cells(summary), rank), summary.min), summary.max)


def magnitude_quantile(summary: Summary, q: float) -> float:
    """Return an approximate quantile of the magnitudes of the finite nonzero elements.

    Interpolated in its bin on a logarithmic scale, and limited to the largest magnitude.

    Args:
        summary: A summary with a histogram.
        q: From 0 (the minimum) to 1 (the maximum).

    Returns:
        > 0, within a factor of two. Magnitudes below 2**-126 share the first bin and count as 2**-126. NaN without a
        histogram or such elements.

    Raises:
        MeasureError: `q` is not between 0 and 1.

    Example:
        >>> magnitude_quantile(Summary(count=4, min=-3.0, max=1.5, exponents={127: 2, 384: 2}), 0.5)
        2.0
    """
    if not 0 <= q <= 1:
        raise MeasureError(f"q is {q}; it must be from 0 to 1.")
    if not summary.nonzero or not summary.exponents:
        return math.nan
    filled: dict[int, int] = {}
    for index, count in summary.exponents.items():
        filled[index % _SIGN] = filled.get(index % _SIGN, 0) + count
    left = q * sum(filled.values())
    found = math.nan
    for field in sorted(filled):
        found = max(field, 1) - 127 + (min(left / filled[field], 1.0) if field else 0.0)
        if left <= filled[field]:
            break
        left -= filled[field]
    # The last bin also has elements beyond float32.
    return min(math.ldexp(2.0 ** (found % 1), math.floor(found)), summary.max_abs)


def share_smaller(summary: Summary, exponent: int) -> float:
    """Return the share of the finite nonzero elements with |x| < 2**exponent.

    Args:
        summary: A summary with a histogram.
        exponent: From −126 to 127.

    Returns:
        From 0 to 1, exact if the histogram is. NaN without a histogram or such elements.

    Example:
        >>> share_smaller(Summary(count=4, exponents={127: 3, 130: 1}), 1)
        0.75
    """
    if not summary.nonzero or not has_histogram(summary):
        return math.nan
    limit = exponent + 127
    smaller = sum(count for index, count in summary.exponents.items() if index % _SIGN < limit)
    return smaller * _scale(summary) / summary.nonzero


def share_below(summary: Summary, fmt: NumberFormat) -> float:
    """Return the share of the finite nonzero elements that `fmt` would flush to zero.

    Returns:
        From 0 to 1; NaN without a histogram or such elements. It counts |x| below half the smallest subnormal. For
        fp16, fp8_e4m3 and fp8_e5m2 this is exact, except that an element of exactly half, which also becomes 0, is not
        counted. For bf16 the limit is inside the first bin, so it returns 0, and the true share is at most
        `share_subnormal`.

    Example:
        >>> from barograph.measures.formats import FP16
        >>> share_below(Summary(count=4, exponents={100: 3, 127: 1}), FP16)  # 2**-27 and 1
        0.75
    """
    exponent = round(math.log2(fmt.smallest_subnormal)) - 1
    if exponent < -126:
        return 0.0 if summary.nonzero and has_histogram(summary) else math.nan
    return share_smaller(summary, exponent)


def share_subnormal(summary: Summary, fmt: NumberFormat) -> float:
    """Return the share of the finite nonzero elements that are subnormal in `fmt`.

    Returns:
        From 0 to 1; NaN without a histogram or such elements. It counts magnitudes from half the
        smallest subnormal up to the smallest normal: exactly for fp16, fp8_e4m3 and fp8_e5m2; for bf16 with those
        it flushes to zero.

    Example:
        >>> from barograph.measures.formats import FP16
        >>> share_subnormal(Summary(count=4, exponents={100: 1, 110: 1, 127: 2}), FP16)
        0.25
    """
    normal = share_smaller(summary, round(math.log2(fmt.smallest_normal)))
    return normal - share_below(summary, fmt)


def share_above(summary: Summary, fmt: NumberFormat) -> float:
    """Return the share of the finite nonzero elements that certainly overflow in `fmt`.

    Returns:
        From 0 to 1; NaN without a histogram or such elements. It counts the bins entirely beyond the range, and an
        extreme beyond it. The range ends inside a bin, so the true share is between this and `share_above_at_most`:
        exactly 0 if the largest magnitude is in range, otherwise off by at most the share in 2**15 to 2**16 for fp16
        and fp8_e5m2, 2**8 to 2**9 for fp8_e4m3, 2**127 to 2**128 for bf16.

    Example:
        >>> from barograph.measures.formats import FP16
        >>> share_above(Summary(count=4, min=1.0, max=70_000.0, exponents={127: 3, 143: 1}), FP16)
        0.25
    """
    return _share_above(summary, fmt, straddling_counts=False)


def share_above_at_most(summary: Summary, fmt: NumberFormat) -> float:
    """Return the upper bound of the share of elements that overflow in `fmt`; see `share_above`.

    Example:
        >>> from barograph.measures.formats import FP8_E4M3
        >>> seen = Summary(count=4, min=1.0, max=500.0, exponents={127: 2, 135: 2})  # two from 256 to 512
        >>> share_above(seen, FP8_E4M3), share_above_at_most(seen, FP8_E4M3)
        (0.25, 0.5)
    """
    return _share_above(summary, fmt, straddling_counts=True)


def _share_above(summary: Summary, fmt: NumberFormat, *, straddling_counts: bool) -> float:
    if not summary.nonzero or not has_histogram(summary):
        return math.nan
    scale, above = _scale(summary), 0.0
    for sign, extreme in ((0, summary.max), (1, -summary.min)):
        if extreme < fmt.overflow_from:
            continue
        limit = 0.5 * fmt.overflow_from if straddling_counts else fmt.overflow_from
        # An extreme out of range is at least one element, even if it was not sampled.
        above += max(1.0, scale * sum(count for count, (low, _) in _filled(summary, sign) if low >= limit))
    return min(above / summary.nonzero, 1.0)


def _filled(summary: Summary, sign: int) -> list[tuple[int, tuple[float, float]]]:
    """Return count and magnitudes of the nonempty bins of one sign, by ascending magnitude."""
    return [(count, magnitudes_of_bin(index)) for index, count in sorted(summary.exponents.items())
            if index // _SIGN == sign and count]


def _scale(summary: Summary) -> float:
    """Return how many elements each sampled one represents."""
    looked_at = sum(summary.exponents.values())
    return summary.nonzero / looked_at if looked_at else 1.0


def _value_at(found: list[Cell], rank: int) -> float:
    below = 0.0
    for cell in found:
        if below + cell.weight > rank:
            return cell.lower + (cell.upper - cell.lower) * min((rank + 0.5 - below) / cell.weight, 1.0)
        below += cell.weight
    return found[-1].upper
