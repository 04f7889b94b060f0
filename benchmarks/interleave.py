"""The arithmetic of measuring side by side: the order of measurements, paired ratios, intervals.

A machine drifts: its clock, its neighbors, its temperature. A ratio of two values measured minutes apart shows the
drift as well as the difference. So the *base* is measured repeatedly between the others, and each value is divided by
the mean of the base just before and just after it. Interior measurements of the base are treated the same way: their
ratios are the *control*, which should be 1, and its spread is the resolution of the benchmark.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with its confidence interval.

    Attributes:
        median: Median of the values.
        low, high: Bounds of the interval that contains the true median with probability `coverage`.
        least, greatest: Extremes of the values.
        coverage: Probability, from order statistics, without assumptions on the distribution.
        count: Number of values.
    """

    median: float
    low: float
    high: float
    least: float
    greatest: float
    coverage: float
    count: int


def interval_of(values: Sequence[float], *, coverage: float = 0.95) -> Interval:
    """Return the median of `values` and the narrowest symmetric interval that covers the true one.

    The true median is between the k-th smallest and the k-th greatest of n values with probability 1 − 2·P(Binomial(n,
    ½) < k). The greatest k that reaches `coverage` is used. If even the extremes do not reach it (fewer than six values
    for 0.95), they are the interval, with their actual coverage.

    Raises:
        ValueError: There are no values.

    Example:
        >>> interval_of([1.00, 1.02, 1.01])
        Interval(median=1.01, low=1.0, high=1.02, least=1.0, greatest=1.02, coverage=0.75, count=3)

    Source: Conover, "Practical Nonparametric Statistics", confidence interval for a quantile.
    """
    if not values:
        raise ValueError("there are no values to take the median of")
    ordered = sorted(values)
    count = len(ordered)
    rank = 1
    while rank + 1 <= (count + 1) // 2 and _coverage(count, rank + 1) >= coverage:
        rank += 1
    return Interval(
        median=_median(ordered),
        low=ordered[rank - 1],
        high=ordered[count - rank],
        least=ordered[0],
        greatest=ordered[-1],
        coverage=_coverage(count, rank),
        count=count,
    )


def round_order(names: Sequence[str], base: str, *, between: int, generator: random.Random) -> list[str]:
    """Return one round: every name once, in random order, with the base first, last and in between.

    Args:
        names: What to measure; the base may be among them and is not repeated for it.
        base: The divisor.
        between: Maximum number of names between two measurements of the base, from 1.
        generator: Random generator of the order.

    Example:
        >>> round_order(["a", "b", "c"], "bare", between=2, generator=random.Random(1))
        ['bare', 'b', 'c', 'bare', 'a', 'bare']
    """
    others = [name for name in names if name != base]
    generator.shuffle(others)
    order = [base]
    for start in range(0, len(others), between):
        order += [*others[start : start + between], base]
    return order


def paired_ratios(measured: Sequence[tuple[str, float]], base: str) -> Mapping[str, list[float]]:
    """Return the ratios by name: each value divided by the mean of the base's nearest two.

    Args:
        measured: One round, as (name, value), in measured order. NaN is a failed measurement: it gives no ratio, and is
            skipped as a base.
        base: The divisor. Its own entry has the control: interior values of the base, divided by the mean of the base's
            values on either side.

    Example:
        >>> paired_ratios([("bare", 2.0), ("a", 6.0), ("bare", 4.0), ("b", 4.0), ("bare", 4.0)], "bare")
        {'bare': [1.3333333333333333], 'a': [2.0], 'b': [1.0]}
    """
    ratios: dict[str, list[float]] = {base: []}
    for position, (name, figure) in enumerate(measured):
        if math.isnan(figure):
            continue
        before = _nearest_base(measured[:position][::-1], base)
        after = _nearest_base(measured[position + 1 :], base)
        if name == base and (before is None or after is None):
            continue  # the control needs a base on either side; the first and last have one
        sides = [side for side in (before, after) if side is not None]
        if sides:
            ratios.setdefault(name, []).append(figure * len(sides) / sum(sides))
    return ratios


def _nearest_base(measured: Sequence[tuple[str, float]], base: str) -> float | None:
    return next((figure for name, figure in measured if name == base and not math.isnan(figure)), None)


def _coverage(count: int, rank: int) -> float:
    outside = sum(math.comb(count, below) for below in range(rank))
    return 1 - 2 * outside / 2**count if count > 1 else 0.0


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
