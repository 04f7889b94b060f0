"""How much of a metric's variation between runs each parameter explains, without a model and without a dependency.

One parameter at a time: runs are grouped by the parameter's value, a numeric parameter with many values by eight
quantiles. The share is the adjusted share of the variance of the metric's ranks between the groups (epsilon squared of
the Kruskal-Wallis test). Ranks make it independent of the scale of the metric, and groups find an optimum in the middle
of a range, which a correlation misses. What two parameters do only together is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_GROUPS = 8
"""Number of quantiles into which a numeric parameter is divided."""

LEAST_RUNS = 5
"""Minimum number of runs for a result."""

_SHUFFLES = 199
_SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """How much a metric depends on a parameter.

    Attributes:
        parameter: Name of the parameter.
        share: Share of the variation of the metric's ranks that the parameter explains, 0 to 1, less what groups of
            this size explain by chance.
        chance: Share that chance exceeds in one of twenty shuffles of the metric; a smaller share may be chance.
        correlation: Spearman's rank correlation of parameter and metric, -1 to 1; NaN if the parameter is not a number.
        runs: Number of runs that have both.
        groups: Number of groups.
    """

    parameter: str
    share: float
    chance: float
    correlation: float
    runs: int
    groups: int


def importances(metric: Sequence[float | None], parameters: Mapping[str, Sequence[Any]]) -> list[Importance]:
    """Return how much a metric depends on each parameter, most first.

    Args:
        metric: Value of each run; None or NaN: it has none. Infinities count as extreme.
        parameters: Name to the value of each run; None: it has none. Parameters with one value, or with a value of its
            own for each run that is not a number, are left out.

    Returns:
        [] with fewer than `LEAST_RUNS` runs.

    Example:
        >>> found = importances([1, 2, 3, 4, 5, 6], {"lr": [1, 1, 2, 2, 3, 3], "seed": [1, 2, 1, 2, 1, 2]})
        >>> [(item.parameter, round(item.share, 2), round(item.correlation, 2)) for item in found]
        [('lr', 0.86, 0.96), ('seed', 0.0, 0.29)]

    Source: Kruskal and Wallis, "Use of Ranks in One-Criterion Variance Analysis", 1952; Kelley, "An unbiased
    correlation ratio measure", 1935.
    """
    values = np.array([np.nan if value is None else value for value in metric], np.float64)
    shuffles: dict[int, NDArray[np.int64]] = {}
    found = [one for name, column in parameters.items()
             if (one := _importance(name, values, column, shuffles)) is not None]
    return sorted(found, key=lambda one: (-one.share, one.parameter))


def _importance(
    name: str, metric: Floats, column: Sequence[Any], shuffles: dict[int, NDArray[np.int64]]
) -> Importance | None:
    there = ~np.isnan(metric) & np.array([value is not None and value == value for value in column], np.bool_)
    known = [value for value, is_there in zip(column, there, strict=True) if is_there]
    if len(known) < LEAST_RUNS:
        return None
    numbers = None if any(isinstance(value, bool | str | list) for value in known) else np.array(known, np.float64)
    codes = _codes(known, numbers)
    groups = int(codes.max()) + 1
    if not 2 <= groups < len(known):
        return None
    y = ranks(metric[there])
    if len(y) not in shuffles:
        shuffles[len(y)] = np.random.default_rng(_SEED).permuted(np.tile(np.arange(len(y)), (_SHUFFLES, 1)), axis=1)
    shares = _shares(np.vstack([y, y[shuffles[len(y)]]]), codes, groups)
    correlation = _correlation(ranks(numbers), y) if numbers is not None else np.nan
    return Importance(name, max(0.0, float(shares[0])), max(0.0, float(np.quantile(shares[1:], 0.95))),
                      float(correlation), len(known), groups)


def _codes(known: Sequence[Any], numbers: Floats | None) -> NDArray[np.int64]:
    """Return the group of each run, from 0."""
    if numbers is None:
        order = {text: place for place, text in enumerate(dict.fromkeys(map(repr, known)))}
        return np.array([order[repr(value)] for value in known], np.int64)
    distinct, codes = np.unique(numbers, return_inverse=True)
    if len(distinct) <= MOST_GROUPS:
        return codes.astype(np.int64)
    # Quantiles of ranks, not of values: infinities have no quantile.
    positions = (ranks(numbers) - 1) / len(numbers)
    _, codes = np.unique(np.floor(positions * MOST_GROUPS), return_inverse=True)
    return codes.astype(np.int64)


def _shares(ranked: Floats, codes: NDArray[np.int64], groups: int) -> Floats:
    """Return epsilon squared of each row of ranks; shape (rows, runs) to (rows,)."""
    runs = ranked.shape[1]
    member = np.zeros((runs, groups))
    member[np.arange(runs), codes] = 1.0
    counts = member.sum(axis=0)
    centered = ranked - ranked.mean(axis=1, keepdims=True)
    total = (centered**2).sum(axis=1)
    between = ((centered @ member) ** 2 / counts).sum(axis=1)
    explained = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    shares: Floats = 1.0 - (1.0 - explained) * (runs - 1) / (runs - groups)
    return shares


def ranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks.

    Example:
        >>> ranks(np.array([3.0, 1.0, 3.0, 9.0])).tolist()
        [2.5, 1.0, 2.5, 4.0]
    """
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Floats = ((2 * last - counts + 1) / 2.0)[codes]
    return found


def _correlation(first: Floats, second: Floats) -> float:
    a, b = first - first.mean(), second - second.mean()
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / size) if size else 0.0
