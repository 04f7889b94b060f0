"""CMA-ES: a normal distribution that moves to the good trials and takes their shape. For hundreds of trials and more.

The distribution starts at the best trials so far. Each generation is taken from the trials that the model proposed, in
order, so it is the same after a process was killed.

Sources: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016, with its default parameters; Hansen, "Injecting
External Solutions Into CMA-ES", 2011.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from barograph.tune.strategies.models import Data
from barograph.tune.strategies.positions import Floats

_TRIES = 20
_LEAST_TRIALS = 100
_LEAST_STEP = 1e-6
_START_SIGMA = (0.02, 0.3)


class CmaModel:
    """See the module.

    Args:
        always: Whether to use it for any number of trials.
    """

    name, most = "cma-es", sys.maxsize

    def __init__(self, *, always: bool = False) -> None:
        self.least = 0 if always else _LEAST_TRIALS
        self._data: Data | None = None
        self._replayed: Floats = np.empty(0)
        self._mean: Floats = np.empty(0)
        self._sigma = 0.0
        self._covariance: Floats = np.empty((0, 0))

    @property
    def why(self) -> str:
        """See `Model.why`."""
        return f"step {self._sigma:.2g}"

    @property
    def has_converged(self) -> bool:
        """See `Model.has_converged`."""
        return 0 < self._sigma < _LEAST_STEP

    def fit(self, data: Data) -> None:
        """See `Model.fit`."""
        self._data = data
        size = data.units.shape[1]
        done = len(data.losses) // population(size) * population(size)
        if done and not np.array_equal(self._replayed, data.losses[:done]):
            self._replayed = data.losses[:done].copy()
            self._mean, self._sigma, self._covariance = _distribution(data.units[:done], data.losses[:done])

    def scores(self, units: Floats) -> Floats:
        """See `Model.scores`: the distance to the mean of the distribution."""
        if not self._sigma:
            return np.zeros(len(units))
        apart = units - self._mean
        inverse = np.linalg.inv(self._covariance + 1e-12 * np.eye(len(self._mean)))
        return np.asarray(np.einsum("ni,ij,nj->n", apart, inverse, apart))

    def proposal(self, generator: np.random.Generator) -> Floats | None:
        """See `Model.proposal`."""
        data = self._data
        assert data is not None
        if self._sigma < _LEAST_STEP:
            return None
        factor = np.linalg.cholesky(self._covariance + 1e-12 * np.eye(len(self._mean)))
        for _ in range(_TRIES):
            row = self._mean + self._sigma * factor @ generator.standard_normal(len(self._mean))
            row = data.positions.snapped(row[None])[0]
            if data.may_be_tried(row):
                return np.asarray(row)
        return None


def population(size: int) -> int:
    """Return the number of trials of a generation for so many dimensions."""
    return 4 + int(3 * math.log(size))


def _distribution(units: Floats, losses: Floats) -> tuple[Floats, float, Floats]:
    """Return mean, step and covariance: generations replayed over the trials, after a start with the first ones."""
    size = units.shape[1]
    count = population(size)
    parents = count // 2
    weights = math.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
    weights /= weights.sum()
    effective = 1.0 / float((weights ** 2).sum())
    rate_sigma = (effective + 2) / (size + effective + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (size + 1)) - 1) + rate_sigma
    rate_path = (4 + effective / size) / (size + 4 + 2 * effective / size)
    rate_one = 2 / ((size + 1.3) ** 2 + effective)
    rate_rank = min(1 - rate_one, 2 * (effective - 2 + 1 / effective) / ((size + 2) ** 2 + effective))
    expected = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size ** 2))
    longest = math.sqrt(size) + 2 * size / (size + 2)

    first = min(max(2 * count, len(losses) // 4 // count * count), len(losses))
    best = np.argsort(losses[:first], kind="stable")[:parents]
    mean = weights[:len(best)] @ units[best] / weights[:len(best)].sum()
    spread = float(units[best].std(axis=0).mean()) if len(best) > 1 else _START_SIGMA[1]
    sigma = min(max(spread, _START_SIGMA[0]), _START_SIGMA[1])
    covariance, path, path_sigma = np.eye(size), np.zeros(size), np.zeros(size)
    for generation in range((len(losses) - first) // count):
        rows = slice(first + generation * count, first + (generation + 1) * count)
        order = np.argsort(losses[rows], kind="stable")[:parents]
        steps = (units[rows][order] - mean) / sigma
        values, vectors = np.linalg.eigh(covariance)
        root = vectors @ np.diag(1 / np.sqrt(np.maximum(values, 1e-14))) @ vectors.T
        # Trials of other models may be far away: no step counts for more than one of the distribution could be long.
        lengths = np.linalg.norm(steps @ root, axis=1)
        steps = steps * np.minimum(1.0, longest / np.maximum(lengths, 1e-12))[:, None]
        move = weights @ steps
        path_sigma = (1 - rate_sigma) * path_sigma + math.sqrt(rate_sigma * (2 - rate_sigma) * effective) * root @ move
        length = float(np.linalg.norm(path_sigma))
        usual = expected * math.sqrt(1 - (1 - rate_sigma) ** (2 * (generation + 1)))
        is_short = length < (1.4 + 2 / (size + 1)) * usual
        path = (1 - rate_path) * path + is_short * math.sqrt(rate_path * (2 - rate_path) * effective) * move
        covariance = ((1 - rate_one - rate_rank) * covariance + rate_one * np.outer(path, path)
                      + rate_rank * (steps.T * weights) @ steps)
        mean = mean + sigma * move
        sigma = min(sigma * math.exp(min(rate_sigma / damping * (length / expected - 1), 1.0)), 0.5)
        sigma = max(sigma, 1e-9)
    return np.clip(mean, 0.0, 1.0), sigma, covariance
