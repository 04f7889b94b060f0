"""Bayesian optimization with a Gaussian process: the position with the greatest expected improvement.

The scale of the objective and the kernel are those with which the process best predicts each trial from all others.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from barograph.tune.strategies.gaussian import Process, extended, fitted
from barograph.tune.strategies.models import Data
from barograph.tune.strategies.positions import Floats
from barograph.tune.strategies.transforms import candidates, transformed

_MOST_OBSERVATIONS = 150
_CHOICE_EVERY = 5
"""The scale and the kernel are chosen again after so many trials, from the trials up to then."""
_EVEN, _NEAR, _REFINED, _ROUNDS = 600, 400, 160, 6
_MOST_ENUMERATED = 4000
_ERF = np.vectorize(math.erfc, otypes=[float])
_CONVERGED = 0.005
_KERNELS = {"matern": "Matérn", "rbf": "RBF"}


class GaussianModel:
    """See the module.

    Args:
        always: Whether to use it for any number of trials.
    """

    name, least = "gp", 0

    def __init__(self, *, always: bool = False) -> None:
        self.most = sys.maxsize if always else _MOST_OBSERVATIONS
        self._data: Data | None = None
        self._process: Process | None = None
        self._values: Floats = np.empty(0)
        self._chosen_from: Floats | None = None
        self._latest = ("none", "matern")
        self._choice = ("none", "matern")
        self._every: Floats | None = None
        self._expected = math.inf

    @property
    def why(self) -> str:
        """See `Model.why`."""
        scale, kernel = self._choice
        return f"{_KERNELS[kernel]} kernel, objective {'not transformed' if scale == 'none' else f'on {scale} scale'}"

    @property
    def has_converged(self) -> bool:
        """See `Model.has_converged`: the expected improvement is below 0.5% of the spread of the trials."""
        return self._expected < _CONVERGED

    def fit(self, data: Data) -> None:
        """See `Model.fit`."""
        keep = _kept(data.losses, _MOST_OBSERVATIONS)
        units, losses = data.units[keep], data.losses[keep]
        features = data.positions.features(units)
        self._choice = self._chosen(features, losses, data.positions.groups)
        values = transformed(losses, self._choice[0]).values
        process = fitted(features, values, self._choice[1], groups=data.positions.groups)
        if len(data.pending):
            # Each running trial is taken for as good as expected, so that the next one goes elsewhere.
            pending = data.positions.features(data.pending)
            values = np.concatenate([values, process.predict(pending)[0]])
            process = extended(process, np.vstack([features, pending]), values)
        self._data, self._process, self._values = data, process, values

    def scores(self, units: Floats) -> Floats:
        """See `Model.scores`."""
        assert self._data is not None
        assert self._process is not None
        return self._process.predict(self._data.positions.features(units))[0]

    def proposal(self, generator: np.random.Generator) -> Floats | None:
        """See `Model.proposal`."""
        data, process = self._data, self._process
        assert data is not None
        assert process is not None
        positions = data.positions
        best = float(process.predict(process.x)[0].min())
        if self._every is None:
            every = positions.every(_MOST_ENUMERATED)
            self._every = np.empty((0, len(positions.space))) if every is None else every
        if len(self._every):
            return self._first_new(self._every, self._improvement(self._every, best))
        size = len(positions.space)
        order = np.argsort(data.losses, kind="stable")
        leaders = data.units[order[:5]]
        near = leaders[np.arange(_NEAR) % len(leaders)]
        sigma = 10.0 ** generator.uniform(-2.3, -0.7, _NEAR)
        pool = positions.snapped(np.vstack([
            positions.even(_EVEN, generator.random(size)), positions.moved(near, sigma, generator)]))
        gains = self._improvement(pool, best)
        for step in range(_ROUNDS):
            top = pool[np.argsort(-gains, kind="stable")[:4]]
            sigma = np.full(_REFINED, 0.1 * 0.45 ** step)
            more = positions.snapped(positions.moved(top[np.arange(_REFINED) % len(top)], sigma, generator))
            pool = np.vstack([pool, more])
            gains = np.concatenate([gains, self._improvement(more, best)])
        return self._first_new(pool, gains)

    def _first_new(self, pool: Floats, gains: Floats) -> Floats | None:
        assert self._data is not None
        for index in np.argsort(-gains, kind="stable"):
            if self._data.may_be_tried(pool[index]):
                self._expected = math.exp(min(float(gains[index]), 700.0))
                return np.asarray(pool[index])
        self._expected = 0.0
        return None

    def _improvement(self, units: Floats, best: float) -> Floats:
        """Return the logarithm of the expected improvement.

        Source: Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization", 2023.
        """
        assert self._data is not None
        assert self._process is not None
        mean, std = self._process.predict(self._data.positions.features(units))
        return np.asarray(_log_h((best - mean) / std) + np.log(std))

    def _chosen(self, features: Floats, losses: Floats, groups: NDArray[np.intp]) -> tuple[str, str]:
        count = len(losses) // _CHOICE_EVERY * _CHOICE_EVERY
        if count < 2 * _CHOICE_EVERY:
            return "none", "matern"
        # Expected losses of trials change; a choice depends on nothing but the losses now.
        if self._chosen_from is None or not np.array_equal(self._chosen_from, losses[:count]):
            self._chosen_from, self._latest = losses[:count].copy(), choice_of(features[:count], losses[:count], groups)
        return self._latest


def choice_of(features: Floats, losses: Floats, groups: NDArray[np.intp] | None = None) -> tuple[str, str]:
    """Return the scale and the kernel with the best predictions of each trial from all others.

    The measure is the likelihood of the losses as they are: the derivative of the scale accounts for the change.
    """
    best, best_density = ("none", "matern"), -math.inf
    for scale in candidates(losses):
        for kernel in _KERNELS:
            process = fitted(features, scale.values, kernel, groups=groups)
            error, std = process.left_out()
            density = float((-0.5 * (error / std) ** 2 - np.log(std) + scale.log_slopes).sum())
            if density > best_density:
                best, best_density = (scale.name, kernel), density
    return best


def _kept(losses: Floats, most: int) -> NDArray[np.intp]:
    """Return the indices of the trials to learn from: the best and the latest."""
    if len(losses) <= most:
        return np.arange(len(losses))
    best = np.argsort(losses, kind="stable")[:most // 2]
    latest = np.arange(len(losses) - most + most // 2, len(losses))
    return np.unique(np.concatenate([best, latest]))


def _log_h(z: Floats) -> Floats:
    """Return log(φ(z) + z Φ(z)), also far below 0."""
    found = np.empty_like(z)
    plain = z > -10.0
    inner = z[plain]
    found[plain] = np.log(np.exp(-0.5 * inner * inner) / math.sqrt(2 * math.pi)
                          + inner * 0.5 * _ERF(-inner / math.sqrt(2.0)))
    far = z[~plain]
    # φ(z) (1/z² − 3/z⁴ + …)
    found[~plain] = -0.5 * far * far - 0.5 * math.log(2 * math.pi) - 2.0 * np.log(-far) + np.log1p(-3.0 / far ** 2)
    return found
