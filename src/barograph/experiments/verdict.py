"""Decides whether one group of results is better than another, or the difference may be noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from barograph.errors import SettingsError

_RESAMPLES = 10_000
_GRID = 20_001
_SEED = 0
_ROUNDING = 1e-12
"""Relative difference below which results are the same number."""


class Outcome(StrEnum):
    """Outcome of the hypothesis that the first group is better."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The second is better."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Difference between two groups of results, with its confidence interval.

    Attributes:
        outcome: Whether the first is better than the second.
        difference: Mean of the first minus mean of the second.
        low, high: Bounds of the confidence interval of the difference; NaN if undefined.
        level: Confidence level of the interval.
        method: "t" (Welch's interval) or "bootstrap" (percentiles of resampled differences).
        counts: Number of finite results in each group.
        reason: Why the outcome is undecided, in a sentence; "" if it is decided.
    """

    outcome: Outcome
    difference: float
    low: float
    high: float
    level: float
    method: str
    counts: tuple[int, int]
    reason: str = ""


def verdict(
    first: Sequence[float], second: Sequence[float], *, greater_is_better: bool = True, level: float = 0.95,
    method: str = "t",
) -> Verdict:
    """Return whether the first group is better than the second.

    Args:
        first, second: Results with different seeds; values that are not finite are ignored.
        greater_is_better: Whether greater results are better.
        level: Confidence level of the interval, between 0 and 1.
        method: "t": Welch's interval, for few and roughly normal results. "bootstrap": percentiles of the differences
            of resampled means; too narrow with fewer than about ten results per group.

    Returns:
        Accepted or rejected if the interval excludes zero; else undecided, also if a group has fewer than two results
        or no group varies.

    Raises:
        SettingsError: The method or level is invalid.

    Example:
        >>> verdict([0.91, 0.92, 0.93], [0.80, 0.82, 0.81]).outcome
        <Outcome.ACCEPTED: 'accepted'>
        >>> verdict([0.91, 0.80, 0.85], [0.80, 0.92, 0.84]).outcome
        <Outcome.UNDECIDED: 'undecided'>

    Source: Welch, "The generalization of Student's problem when several different population variances are involved",
    1947; Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    if method not in _METHODS:
        raise SettingsError(f'"{method}" is not a comparison method; use one of {", ".join(_METHODS)}.')
    if not 0 < level < 1:
        raise SettingsError(f"confidence is {level}; it must be between 0 and 1, as in 0.95.")
    a, b = (np.array([value for value in group if math.isfinite(value)]) for group in (first, second))
    counts = len(a), len(b)
    difference = float(a.mean() - b.mean()) if min(counts) else math.nan
    if min(counts) < 2:
        reason = "One independent result cannot be told apart from noise. Repeat it with other seeds."
        return Verdict(Outcome.UNDECIDED, difference, math.nan, math.nan, level, method, counts, reason)
    low, high = _METHODS[method](a, b, level)
    if not varies(a) and not varies(b):
        reason = ("Neither group varies, so its results are probably repeats and not independent. Repeat them with "
                  "other seeds.")
        return Verdict(Outcome.UNDECIDED, difference, low, high, level, method, counts, reason)
    better, worse = (low > 0, high < 0) if greater_is_better else (high < 0, low > 0)
    if better or worse:
        return Verdict(Outcome.ACCEPTED if better else Outcome.REJECTED, difference, low, high, level, method, counts)
    return Verdict(Outcome.UNDECIDED, difference, low, high, level, method, counts,
                   "The difference may be noise: the interval contains zero. More seeds narrow it.")


def varies(group: Sequence[float] | NDArray[np.float64]) -> bool:
    """Return whether finite results differ by more than rounding; there is at least one."""
    # The mean of equal values may differ from them by rounding, which would make an interval of almost no width.
    return bool(np.ptp(group) > _ROUNDING * np.max(np.abs(group)))


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of results and the bounds of its t-interval; NaN if there are fewer than two."""
    known = np.array([value for value in values if math.isfinite(value)])
    if len(known) < 2:
        return (float(known[0]) if len(known) else math.nan), math.nan, math.nan
    mean = float(known.mean())
    half = t_quantile((1 + level) / 2, len(known) - 1) * float(known.std(ddof=1)) / math.sqrt(len(known))
    return mean, mean - half, mean + half


@lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution.

    Args:
        share: Probability, above 0.5 and below 1.
        freedom: Degrees of freedom, above 0.

    Example:
        >>> round(t_quantile(0.975, 4), 3), round(t_quantile(0.975, 1), 3), round(t_quantile(0.975, 1000), 3)
        (2.776, 12.706, 1.962)
    """
    # Substituting t = tan(angle)·√freedom makes the density a power of the cosine on a bounded interval.
    angles = np.linspace(0.0, math.pi / 2, _GRID)
    density = np.cos(angles) ** (freedom - 1) if freedom != 1 else np.ones(_GRID)
    if freedom < 1:
        density[-1] = density[-2]
    below = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    angle = float(np.interp(2 * share - 1, below / below[-1], angles))
    return math.tan(angle) * math.sqrt(freedom)


def _welch(a: NDArray[np.float64], b: NDArray[np.float64], level: float) -> tuple[float, float]:
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    difference, spread = float(a.mean() - b.mean()), math.sqrt(sum(parts))
    if spread == 0:
        return difference, difference
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    half = t_quantile((1 + level) / 2, float(freedom)) * spread
    return difference - half, difference + half


def _bootstrap(a: NDArray[np.float64], b: NDArray[np.float64], level: float) -> tuple[float, float]:
    draws = np.random.default_rng(_SEED)
    means = [group[draws.integers(0, len(group), (_RESAMPLES, len(group)))].mean(axis=1) for group in (a, b)]
    low, high = np.quantile(means[0] - means[1], [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


_METHODS = {"t": _welch, "bootstrap": _bootstrap}
