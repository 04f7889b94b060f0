"""What the exponent histogram of a Summary says: quantiles, and shares outside the range of a number format.

A bin holds the elements of one sign whose magnitude lies between two powers of two, so the figures are exact where
the question is about powers of two and bounded by a factor of two where it is about values; each function says so.

Where the histogram was sampled, the counts are scaled up, and each share p read from m sampled elements has the
standard error of a sample, about sqrt(p (1 − p) / m). Zeros, and what is not finite, are counted exactly always.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.errors import MeasureError
from barograph.measures.formats import NumberFormat
from barograph.model.summary import Summary

_SIGN = 256


class Cell(NamedTuple):
    """Neighbouring values and how many elements lie among them.

    Attributes:
        lower, upper: Bounds. Of positive values `upper` lies outside, of negative ones `lower`; zero is a cell of
            its own, with both 0.
        weight: Elements, scaled up where the histogram was sampled.
    """

    lower: float
    upper: float
    weight: float


def magnitudes_of_bin(index: int) -> tuple[float, float]:
    """Return the least magnitude in the bin and the least above it.

    Bin 0 (and 256) begins at 0; what a wider type holds beyond float32's range lies in the last bin.

    Example:
        >>> magnitudes_of_bin(127), magnitudes_of_bin(128 + 256)
        ((1.0, 2.0), (2.0, 4.0))
    """
    field = index % _SIGN
    return (math.ldexp(1.0, field - 127) if field else 0.0), math.ldexp(1.0, field - 126)


def cells(summary: Summary) -> list[Cell]:
    """Return the filled bins and the zeros as cells, from the least values to the greatest.

    Returns:
        Cells whose weights add up to `summary.finite`; none where no histogram was taken and there is something
        that is not zero.

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
    """Return whether the histogram can speak for the finite elements: one was taken, or all of them are zero."""
    return bool(summary.exponents) or summary.nonzero == 0


def cumulative(summary: Summary) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how the finite elements are distributed: upper bounds of the cells, and the share up to each.

    Returns:
        Two arrays of one length, ascending: `upper` of each cell, and the share of the finite elements that lie in
        it or below. Both empty where there is no histogram or nothing finite. Exact at these bounds where the
        histogram is.

    Example:
        >>> bounds, shares = cumulative(Summary(count=4, zeros=1, exponents={127: 1, 384: 2}))
        >>> bounds.tolist(), shares.tolist()
        ([-2.0, 0.0, 2.0], [0.5, 0.75, 1.0])
    """
    found = cells(summary)
    weights = np.cumsum([cell.weight for cell in found]) if found else np.zeros(0)
    return np.array([cell.upper for cell in found]), weights / max(summary.finite, 1)


def quantile(summary: Summary, q: float) -> float:
    """Return about the value that a share `q` of the finite elements lie below.

    It stands for the element of rank floor(q · (finite − 1)), as `numpy.quantile(…, method="lower")` gives it: found
    in its bin, evenly spread there, and kept within the extremes.

    Args:
        summary: With a histogram.
        q: From 0 (the least) to 1 (the greatest).

    Returns:
        A value of the same sign as that element and within a factor of two of it; the same if it is 0, or an
        extreme. Elements outside float32's normal range share the first or the last bin: there only the sign and
        the extremes hold. NaN where there is no histogram or no finite element. From a sampled histogram, that
        of a neighbouring rank.

    Raises:
        MeasureError: `q` is not from 0 to 1.

    Example:
        >>> quantile(Summary(count=4, min=-3.5, max=1.5, exponents={127: 1, 384: 3}), 0.5)
        -3.0
    """
    if not 0 <= q <= 1:
        raise MeasureError(f"q is {q}; a quantile is asked for with a share from 0 to 1.")
    if not summary.finite or not has_histogram(summary):
        return math.nan
    rank = math.floor(q * (summary.finite - 1))
    if rank == 0 or rank == summary.finite - 1:
        return summary.max if rank else summary.min
    return min(max(_value_at(cells(summary), rank), summary.min), summary.max)


def magnitude_quantile(summary: Summary, q: float) -> float:
    """Return about the magnitude that a share `q` of the finite elements that are not zero lie below.

    Found in its bin, evenly spread there on a logarithmic scale, and kept below the greatest magnitude.

    Args:
        summary: With a histogram.
        q: From 0 (the least) to 1 (the greatest).

    Returns:
        > 0, within a factor of two. Magnitudes below 2**-126 share the first bin and count as 2**-126. NaN where there
        is no histogram or no such element.

    Raises:
        MeasureError: `q` is not from 0 to 1.

    Example:
        >>> magnitude_quantile(Summary(count=4, min=-3.0, max=1.5, exponents={127: 2, 384: 2}), 0.5)
        2.0
    """
    if not 0 <= q <= 1:
        raise MeasureError(f"q is {q}; a quantile is asked for with a share from 0 to 1.")
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
    # The last bin holds what is beyond float32, too.
    return min(math.ldexp(2.0 ** (found % 1), math.floor(found)), summary.max_abs)


def share_smaller(summary: Summary, exponent: int) -> float:
    """Return the share of the finite elements that are not zero which have |x| < 2**exponent.

    Args:
        summary: With a histogram.
        exponent: From −126 to 127.

    Returns:
        From 0 to 1, exact where the histogram is. NaN where there is no histogram or no such element.

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
    """Return the share of the finite elements that are not zero which `fmt` would flush to zero.

    Returns:
        From 0 to 1; NaN where there is no histogram or no such element. It counts |x| below half the smallest
        subnormal: for fp16, fp8_e4m3 and fp8_e5m2 exactly (an element of exactly half, which becomes 0 too, is
        not among them). For bf16 that lies inside the first bin, so it returns 0, and the true share is at most
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
    """Return the share of the finite elements that are not zero which `fmt` would hold with fewer digits.

    Returns:
        From 0 to 1; NaN where there is no histogram or no such element. It counts magnitudes from half the
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
    """Return the share of the finite elements that are not zero which `fmt` is certain not to hold.

    Returns:
        From 0 to 1; NaN where there is no histogram or no such element. It counts the bins that lie beyond the
        range whole, and an extreme that lies beyond it. The range ends inside a bin, so the true share is
        between this and `share_above_at_most`: 0 exactly if the greatest magnitude is in range, else off by at most
        the share in 2**15 to 2**16 for fp16 and fp8_e5m2, 2**8 to 2**9 for fp8_e4m3, 2**127 to 2**128 for bf16.

    Example:
        >>> from barograph.measures.formats import FP16
        >>> share_above(Summary(count=4, min=1.0, max=70_000.0, exponents={127: 3, 143: 1}), FP16)
        0.25
    """
    return _share_above(summary, fmt, straddling_counts=False)


def share_above_at_most(summary: Summary, fmt: NumberFormat) -> float:
    """Return the most that the share of elements which `fmt` would not hold can be; see `share_above`.

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
        # An extreme out of range is one element at least, whether or not a sample met it.
        above += max(1.0, scale * sum(count for count, (low, _) in _filled(summary, sign) if low >= limit))
    return min(above / summary.nonzero, 1.0)


def _filled(summary: Summary, sign: int) -> list[tuple[int, tuple[float, float]]]:
    """Return count and magnitudes of the filled bins of one sign, by rising magnitude."""
    return [(count, magnitudes_of_bin(index)) for index, count in sorted(summary.exponents.items())
            if index // _SIGN == sign and count]


def _scale(summary: Summary) -> float:
    """Return how many elements one that was looked at stands for."""
    looked_at = sum(summary.exponents.values())
    return summary.nonzero / looked_at if looked_at else 1.0


def _value_at(found: list[Cell], rank: int) -> float:
    below = 0.0
    for cell in found:
        if below + cell.weight > rank:
            return cell.lower + (cell.upper - cell.lower) * min((rank + 0.5 - below) / cell.weight, 1.0)
        below += cell.weight
    return found[-1].upper
