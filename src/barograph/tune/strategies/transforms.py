"""Transforms of the objective before a Gaussian process: which one it predicts best is decided by the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from barograph.tune.strategies.positions import Floats

_NORMAL = NormalDist()
_GAP_BIAS = 0.27
_SOFT = {"log": 0.05, "mild log": 0.5}


@dataclass(frozen=True, slots=True)
class Transformed:
    """Losses on another scale, in the same order.

    Attributes:
        name: "none", "log", "mild log" or "rank".
        values: With mean 0 and variance 1.
        log_slopes: Logarithm of the derivative at each loss, which makes likelihoods of different scales comparable.
    """

    name: str
    values: Floats
    log_slopes: Floats


def transformed(losses: Floats, name: str) -> Transformed:
    """Return finite losses on a scale."""
    if name == "rank":
        return _ranked(losses)
    low = float(losses.min())
    if name == "none":
        return _standardized(name, losses, np.zeros_like(losses))
    scale = float(np.median(losses)) - low or float(losses.std()) or 1.0
    shifted = losses - low + _SOFT[name] * scale
    return _standardized(name, np.log(shifted), -np.log(shifted))


def candidates(losses: Floats) -> Iterator[Transformed]:
    """Yield the losses on each scale."""
    for name in ("none", "mild log", "log", "rank"):
        yield transformed(losses, name)


def _standardized(name: str, values: Floats, log_slopes: Floats) -> Transformed:
    std = float(values.std()) or 1.0
    return Transformed(name, (values - values.mean()) / std, log_slopes - math.log(std))


def _ranked(losses: Floats) -> Transformed:
    """Return normal scores. The derivative is that of the line between the two neighbors.

    Gaps between neighbors overstate a density: the logarithm of two gaps together is too small by log 2 − ψ(2) = 0.27.
    """
    count = len(losses)
    ordered, inverse, counts = np.unique(losses, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0  # of equals the mean
    scores = np.array([_NORMAL.inv_cdf(min(max((rank - 0.5) / count, 1e-4), 1 - 1e-4)) for rank in ranks])
    if len(ordered) < 2:
        return Transformed("rank", np.zeros(count), np.zeros(count))
    above, below = np.minimum(np.arange(len(ordered)) + 1, len(ordered) - 1), np.maximum(np.arange(len(ordered)) - 1, 0)
    slopes = np.maximum((scores[above] - scores[below]) / (ordered[above] - ordered[below]), 1e-12)
    return _standardized("rank", scores[inverse], np.log(slopes)[inverse] - _GAP_BIAS)
