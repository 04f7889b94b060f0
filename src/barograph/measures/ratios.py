"""Ratios between tensors and between numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from barograph.model.summary import Summary


def update_ratio(update: Summary, weight: Summary, epsilon: float = 0.0) -> float:
    """Return the size of an update relative to the weight it changes.

    ratio = ‖update‖₂ / (‖weight‖₂ + epsilon)

    Typical values are near 1e-3. Far above, the learning rate is probably too high; far below, too low.

    Args:
        update: Summary of the change by the optimizer in this step (not the gradient).
        weight: Summary of the parameter, strictly before the update; after it the ratio differs by a factor of at most
            1 ± ratio.
        epsilon: Added to the norm of the weight, so that a weight of zeros gives a finite ratio.

    Returns:
        A ratio without unit, >= 0. NaN if either has a nonfinite element or no elements. If the divisor is 0: 0.0 if
        the update is 0, too, else inf.

    Example:
        >>> update_ratio(Summary(count=1, sum_sq=9e-6), Summary(count=1, sum_sq=9.0))
        0.001

    Source: CS231n notes, "Neural Networks Part 3", section "Ratio of weights:updates".
    """
    if not _whole(update) or not _whole(weight):
        return math.nan
    return quotient(update.l2, weight.l2 + epsilon)


def magnitude_ratio(one: Summary, other: Summary) -> float:
    """Return the ratio of the mean magnitudes of two tensors.

    For the gradients of the first and the last layer, it shows how much is lost in the backward pass.

    Returns:
        A ratio without unit, >= 0, over the finite elements. NaN if either has no finite elements. If all of `other` is
        zero: 0.0 if `one` is zero, too, else inf.

    Example:
        >>> magnitude_ratio(Summary(count=2, sum_abs=4.0), Summary(count=4, sum_abs=2.0))
        4.0
    """
    return quotient(one.mean_abs, other.mean_abs)


def variance_spread(summaries: Iterable[Summary]) -> float:
    """Return the ratio of the largest to the smallest variance of several tensors.

    Returns:
        >= 1; inf if the smallest is 0 and the largest is not; 1.0 if all are 0. NaN if fewer than two have
        a finite element.

    Example:
        >>> variance_spread([Summary(count=1, sum_sq=4.0), Summary(count=1, sum_sq=1.0), Summary()])
        4.0
    """
    variances = [summary.variance for summary in summaries if summary.finite]
    if len(variances) < 2:
        return math.nan
    return 1.0 if max(variances) == 0 else quotient(max(variances), min(variances))


def relative_gap(value: float, base: float) -> float:
    """Return how far `value` is above `base`, as a share of the magnitude of `base`.

    gap = (value − base) / |base|

    Returns:
        A share without unit, negative if the value is below. If base is 0: 0.0 if the value is too, else inf
        with the sign of the value. NaN if either is.

    Example:
        >>> relative_gap(1.5, 1.0)
        0.5
    """
    return quotient(value - base, abs(base))


def quotient(numerator: float, denominator: float) -> float:
    """Return numerator / denominator; over 0 it is 0.0 for 0, else inf with the numerator's sign.

    Example:
        >>> quotient(0.0, 0.0), quotient(-1.0, 0.0)
        (0.0, -inf)
    """
    if denominator != 0:
        return numerator / denominator
    return numerator * math.inf if numerator else 0.0


def _whole(summary: Summary) -> bool:
    return summary.nonfinite == 0 and summary.count > 0
