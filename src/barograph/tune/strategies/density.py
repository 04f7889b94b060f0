"""How good positions are, by the density of good trials beside that of bad ones: the model of TPE, in NumPy.

    score = log g(x) − log l(x),   l: density of the best trials, g: of the others

Both are mixtures of products of kernels, with a uniform one. Source: Bergstra et al., "Algorithms for Hyper-Parameter
Optimization", 2011; Watanabe, "Tree-Structured Parzen Estimator: Understanding Its Algorithm Components", 2023.
"""

from __future__ import annotations

import math

import numpy as np

from barograph.tune.strategies.models import Data
from barograph.tune.strategies.positions import Floats, Positions

_MOST_GOOD = 25
_GOOD_SHARE = 0.1
_LEAST_WIDTH = 0.03


def good_count(count: int) -> int:
    """Return how many of so many trials count as good."""
    return min(math.ceil(_GOOD_SHARE * count), _MOST_GOOD)


class Densities:
    """The two densities.

    Args:
        data: The trials, two at least.
    """

    def __init__(self, data: Data) -> None:
        order = np.argsort(data.losses, kind="stable")
        good = max(good_count(len(order)), 2)
        self._positions = data.positions
        bad = data.units[order[good:]]
        self._good = data.units[order[:good]]
        self._bad = np.vstack([bad, data.pending]) if len(data.pending) else bad

    def scores(self, units: Floats) -> Floats:
        """Return how good positions are; lower is better."""
        return _log_density(units, self._bad, self._positions) - _log_density(units, self._good, self._positions)


def _log_density(units: Floats, centers: Floats, positions: Positions) -> Floats:
    count, size = centers.shape
    width = max(_LEAST_WIDTH, 0.5 * max(count, 1) ** (-1.0 / (size + 4)))
    total = np.zeros((len(units), count))
    for place, parameter in enumerate(positions.space):
        apart = np.abs(units[:, place, None] - centers[None, :, place])
        if parameter.domain.is_ordered:
            total += -0.5 * (apart / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))
        else:
            levels = parameter.domain.levels
            share = 1.0 / (count + levels)  # of every other value
            total += np.where(apart < 1e-9, math.log(levels * (1.0 - (levels - 1) * share)), math.log(levels * share))
    total = np.hstack([total, np.zeros((len(units), 1))])  # the uniform kernel
    top = total.max(axis=1)
    return np.asarray(top + np.log(np.exp(total - top[:, None]).sum(axis=1)) - math.log(count + 1))
