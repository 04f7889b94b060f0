"""Converts histograms of event files, in both versions, to summaries."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedSource
from barograph.model.summary import EXPONENT_BINS, Summary
from barograph.wire.protobuf import fields_of, real_of, reals_of

_MIN, _MAX, _NUM, _SUM, _SUM_SQ, _LIMITS, _COUNTS = 1, 2, 3, 4, 5, 6, 7
_NO_WIDTH = 1e-11
"""TensorFlow's innermost buckets end at ±1e-12; elements between count as zero."""
_SIGN = 256
_LEAST_FIELD, _LAST_FIELD = 1, 254
_MOST_BUCKETS = 1 << 20


def summary_of_message(message: memoryview) -> Summary:
    """Return a HistogramProto, as PyTorch's `add_histogram` writes it, as a summary.

    Count, extremes, sum and sum of squares are exact. The sum of magnitudes, zeros and powers of two are estimated from
    its buckets, which are about 10% wide.

    Raises:
        DamagedSource: It is not such a message, or it is inconsistent.
    """
    stated = {_MIN: 0.0, _MAX: 0.0, _NUM: 0.0, _SUM: 0.0, _SUM_SQ: 0.0}
    lists: dict[int, list[NDArray[np.floating]]] = {_LIMITS: [], _COUNTS: []}
    for field in fields_of(message):
        if field.number in stated:
            stated[field.number] = real_of(field)
        elif field.number in lists:
            lists[field.number].append(reals_of(field, "<f8"))
    limits, counts = (np.concatenate([*lists[number], np.zeros(0)]) for number in (_LIMITS, _COUNTS))
    if len(limits) != len(counts):
        raise DamagedSource(f"a histogram has {len(limits)} limits for {len(counts)} buckets")
    low, high = stated[_MIN], stated[_MAX]
    edges = np.concatenate([[min(low, limits[0]) if math.isfinite(low) else limits[0]], limits]) if len(limits) else (
        np.zeros(1))
    if math.isfinite(low) and math.isfinite(high):
        edges = np.clip(edges, low, high)
    summary = _summary(edges[:-1], edges[1:], counts)
    total = _whole_count(stated[_NUM])
    if total < summary.count:
        raise DamagedSource(f"a histogram of {total} elements has {summary.count} elements in its buckets")
    finite = all(math.isfinite(stated[number]) for number in (_MIN, _MAX, _SUM, _SUM_SQ))
    if not finite or total > summary.count:
        # Elements that are not finite are in no bucket, but affect the sums.
        return replace(summary, count=total, nan=total - summary.count)
    one_sign = low >= 0 or high <= 0
    return replace(summary, min=low, max=high, sum=stated[_SUM], sum_sq=stated[_SUM_SQ],
                     sum_abs=abs(stated[_SUM]) if one_sign else summary.sum_abs)


def summary_of_buckets(buckets: NDArray[Any]) -> Summary:
    """Return a histogram of `tf.summary` as a summary, estimated from its buckets.

    Args:
        buckets: Rows of left edge, right edge and count.

    Raises:
        DamagedSource: They are not such rows.

    Example:
        >>> summary = summary_of_buckets(np.array([[1.0, 2.0, 3.0]]))
        >>> summary.count, summary.mean, dict(summary.exponents)
        (3, 1.5, {127: 3})
    """
    if buckets.size == 0:
        return Summary()
    if buckets.ndim != 2 or buckets.shape[1] != 3 or buckets.dtype.kind not in "fiu":
        raise DamagedSource(f"a histogram has shape {buckets.shape}")
    rows = buckets.astype(np.float64)
    return _summary(rows[:, 0], rows[:, 1], rows[:, 2])


def _summary(lefts: NDArray[np.float64], rights: NDArray[np.float64], counts: NDArray[np.floating]) -> Summary:
    if len(counts) > _MOST_BUCKETS:
        raise DamagedSource(f"a histogram has {len(counts)} buckets")
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() < 1 << 53):
        raise DamagedSource("a histogram has an invalid count")
    filled = np.flatnonzero(counts)
    lefts, rights, counts = lefts[filled], rights[filled], np.rint(counts[filled])
    if not (np.isfinite(lefts).all() and np.isfinite(rights).all() and (lefts <= rights).all()):
        raise DamagedSource("a bucket of a histogram ends before it begins")
    if not len(filled):
        return Summary()
    middles = lefts / 2 + rights / 2
    near_zero = (lefts <= 0) & (rights >= 0) & (rights - lefts < _NO_WIDTH)
    middles[near_zero] = 0.0
    exponents = np.zeros(EXPONENT_BINS, np.int64)
    for left, right, count in zip(lefts[~near_zero], rights[~near_zero], counts[~near_zero], strict=True):
        _spread(float(left), float(right), int(count), exponents)
    found = np.flatnonzero(exponents)
    with np.errstate(all="ignore"):
        sums = float(middles @ counts), float(middles**2 @ counts), float(np.abs(middles) @ counts)
    if not all(math.isfinite(total) for total in sums):
        raise DamagedSource("the elements of a histogram are too large to be summed")
    return Summary(
        count=int(counts.sum()), zeros=int(counts[near_zero].sum()), min=float(lefts.min()), max=float(rights.max()),
        sum=sums[0], sum_sq=sums[1], sum_abs=sums[2],
        exponents={int(place): int(exponents[place]) for place in found},
    )


def _spread(left: float, right: float, count: int, exponents: NDArray[np.int64]) -> None:
    """Distribute the elements of a bucket uniformly over the powers of two that it covers."""
    if left < 0 < right:
        below = round(count * (-left / (right - left)))
        _spread(left, 0.0, below, exponents)
        _spread(0.0, right, count - below, exponents)
        return
    sign = _SIGN if left < 0 else 0
    low, high = sorted((abs(left), abs(right)))
    first, last = _field(low), _field(high, ends=True)
    done = 0
    for number in range(first, last + 1):
        reached = math.ldexp(1.0, number - 126)
        share = 1.0 if number == last or high == low else (reached - low) / (high - low)
        upto = round(count * min(1.0, max(0.0, share)))
        exponents[sign + number] += upto - done
        done = upto


def _field(magnitude: float, *, ends: bool = False) -> int:
    """Return the bin of a magnitude; for the end of a bucket at a power of two, the one below."""
    if magnitude == 0:
        return 0
    mantissa, exponent = math.frexp(magnitude)
    number = exponent + 126 - (1 if ends and mantissa == 0.5 else 0)
    return 0 if number < _LEAST_FIELD else min(number, _LAST_FIELD)


def _whole_count(number: float) -> int:
    if not (math.isfinite(number) and 0 <= number < 1 << 53):
        raise DamagedSource(f"a histogram has {number} elements")
    return round(number)
