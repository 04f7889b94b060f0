"""A Gaussian process for few observations, in NumPy.

    y(x) = f(x) + noise,   f ~ GP(0, σ² k(r)),   r² = Σ ((x_d − x'_d) / ℓ_d)²

Length scales, σ² and the noise are those of highest posterior density. The prior of the length scales grows with the
number of dimensions.

Sources: Rasmussen & Williams, "Gaussian Processes for Machine Learning", 2006, sections 2.2, 4.2, 5.4.2; Hvarfner,
Hellsten & Nardi, "Vanilla Bayesian Optimization Performs Great in High Dimensions", 2024 (the prior).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.tune.strategies.positions import Floats

_ROOT5 = math.sqrt(5.0)
_JITTER = 1e-9
_LOG_NOISE_MEAN, _LOG_NOISE_STD = -10.5, 3.0
_LOG_SIGNAL_STD = 1.0
_LOG_LENGTH_STD = 1.0
_BOUND = 12.0
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Process:
    """A fitted process.

    Attributes:
        x: Features of the observations.
        kernel: "matern" or "rbf".
        lengths: Length scale of each feature.
        signal: σ².
        factor: Lower Cholesky factor of the covariance of the observations.
        weights: Covariance⁻¹ y.
        density: Log posterior density of the hyperparameters.
        noise: Variance of the noise.
    """

    x: Floats
    kernel: str
    lengths: Floats
    signal: float
    factor: Floats
    weights: Floats
    density: float
    noise: float

    def predict(self, at: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of f at features."""
        inverse, known = _inverse(self.factor), self.x / self.lengths
        mean, variance = np.empty(len(at)), np.empty(len(at))
        for first in range(0, len(at), _BLOCK):  # a few at a time: all would need ten megabytes
            rows = slice(first, first + _BLOCK)
            cross = self.signal * _correlation(_distances(at[rows] / self.lengths, known), self.kernel)
            mean[rows] = cross @ self.weights
            half = inverse @ cross.T
            variance[rows] = self.signal - (half * half).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def left_out(self) -> tuple[Floats, Floats]:
        """Return how each observation is predicted from all others: minus its error, and the standard deviation."""
        inverse = _inverse(self.factor)
        precision = (inverse * inverse).sum(axis=0)
        return self.weights / precision, 1.0 / np.sqrt(precision)


def fitted(
    x: Floats, y: Floats, kernel: str = "matern", *, groups: NDArray[np.intp] | None = None, starts: int = 1
) -> Process:
    """Return the process for observations, standardized by the caller.

    Args:
        x: Features, n × d.
        y: Values, about mean 0 and variance 1.
        kernel: "matern" (5/2) or "rbf".
        groups: Number of the group of each feature, from 0: those of a group share a length scale. None: each has one.
        starts: Number of starting points of the optimization.
    """
    squares = (x[:, None, :] - x[None, :, :]) ** 2  # n × n × d
    groups = np.arange(x.shape[1]) if groups is None else groups
    size = int(groups.max()) + 1
    if size < x.shape[1]:
        squares = np.stack([squares[:, :, groups == group].sum(axis=2) for group in range(size)], axis=2)
    center = np.array([*[math.log(0.5) + 0.5 * math.log(size / 3.0)] * size, 0.0, _LOG_NOISE_MEAN])
    spread = np.array([*[_LOG_LENGTH_STD] * size, _LOG_SIGNAL_STD, _LOG_NOISE_STD])

    def objective(point: Floats) -> tuple[float, Floats]:
        return _negative_log_posterior(point, squares, y, kernel, center, spread)

    best_point, best = center, math.inf
    for start in range(starts):
        first = center.copy()
        first[-1] = (-6.0, -2.0)[start % 2]
        first[:size] += (0.0, -0.7)[start % 2]
        point, value = _minimized(objective, first)
        if value < best:
            best_point, best = point, value
    lengths, signal, noise = np.exp(best_point[:size])[groups], math.exp(best_point[-2]), math.exp(best_point[-1])
    covariance = signal * _correlation(squares @ np.exp(-2.0 * best_point[:size]), kernel)
    factor = _cholesky(covariance + (noise + _JITTER) * np.eye(len(y)))
    weights = _solved(factor, y)
    return Process(x, kernel, lengths, signal, factor, weights, -best, noise)


def extended(process: Process, x: Floats, y: Floats) -> Process:
    """Return a process with the same hyperparameters for other observations."""
    distances = _distances(x / process.lengths, x / process.lengths)
    covariance = process.signal * _correlation(distances, process.kernel)
    factor = _cholesky(covariance + (process.noise + _JITTER) * np.eye(len(y)))
    return Process(x, process.kernel, process.lengths, process.signal, factor, _solved(factor, y), process.density,
                   process.noise)


def _negative_log_posterior(
    point: Floats, squares: Floats, y: Floats, kernel: str, center: Floats, spread: Floats
) -> tuple[float, Floats]:
    size = squares.shape[2]
    if np.abs(point).max() > _BOUND + 10:
        return math.inf, np.zeros_like(point)
    scaled = np.exp(-2.0 * point[:size])
    signal, noise = math.exp(point[-2]), math.exp(point[-1])
    distances = squares @ scaled
    correlation = _correlation(distances, kernel)
    try:
        factor = np.asarray(np.linalg.cholesky(signal * correlation + (noise + _JITTER) * np.eye(len(y))))
    except np.linalg.LinAlgError:
        return math.inf, np.zeros_like(point)
    half = _inverse(factor)
    inverse = half.T @ half
    weights = inverse @ y
    z = (point - center) / spread
    value = 0.5 * float(y @ weights) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(z @ z)
    inner = inverse - np.outer(weights, weights)  # 2 dL/dK
    slope = inner * (signal * _slope(distances, correlation, kernel))
    gradient = np.empty_like(point)
    # dK/dlog ℓ_d = −2 r² share of d · dk/d(r²)
    gradient[:size] = -np.einsum("ij,ijd->d", slope, squares) * scaled
    gradient[-2] = 0.5 * float((inner * correlation).sum()) * signal
    gradient[-1] = 0.5 * float(np.trace(inner)) * noise
    return value, gradient + z / spread


def _correlation(squared: Floats, kernel: str) -> Floats:
    if kernel == "rbf":
        return np.asarray(np.exp(-0.5 * squared))
    root = np.sqrt(5.0 * np.maximum(squared, 0.0))
    return np.asarray((1.0 + root + root * root / 3.0) * np.exp(-root))


def _slope(squared: Floats, correlation: Floats, kernel: str) -> Floats:
    """Return dk/d(r²)."""
    if kernel == "rbf":
        return -0.5 * correlation
    root = np.sqrt(5.0 * np.maximum(squared, 0.0))
    return np.asarray(-(5.0 / 6.0) * (1.0 + root) * np.exp(-root))


def _distances(one: Floats, other: Floats) -> Floats:
    squared = (one * one).sum(axis=1)[:, None] + (other * other).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.asarray(np.maximum(squared, 0.0))


def _cholesky(covariance: Floats) -> Floats:
    jitter = 0.0
    while True:
        try:
            return np.asarray(np.linalg.cholesky(covariance + jitter * np.eye(len(covariance))))
        except np.linalg.LinAlgError:
            jitter = max(10.0 * jitter, 1e-7)


def _inverse(factor: Floats) -> Floats:
    return np.asarray(np.linalg.inv(factor))


def _solved(factor: Floats, y: Floats) -> Floats:
    half = _inverse(factor)
    return np.asarray(half.T @ (half @ y))


def _minimized(
    objective: Callable[[Floats], tuple[float, Floats]], start: Floats, *, rounds: int = 40
) -> tuple[Floats, float]:
    """Return a minimum by BFGS with backtracking, and its value."""
    point = start
    value, gradient = objective(point)
    metric: Any = np.eye(len(start)) * 0.1
    for _ in range(rounds):
        direction = -metric @ gradient
        slope = float(direction @ gradient)
        if slope > -1e-12:
            metric, direction = np.eye(len(start)) * 0.1, -0.1 * gradient
            slope = float(direction @ gradient)
        direction *= min(1.0, 3.0 / max(float(np.abs(direction).max()), 1e-12))
        slope = float(direction @ gradient)
        step = 1.0
        for _ in range(12):
            new_value, new_gradient = objective(point + step * direction)
            if new_value <= value + 1e-4 * step * slope:
                break
            step *= 0.4
        else:
            break
        moved, change = step * direction, new_gradient - gradient
        gained = value - new_value
        point, value, gradient = point + moved, new_value, new_gradient
        if gained < 1e-4:
            break
        product = float(moved @ change)
        if product > 1e-10:
            left = np.eye(len(start)) - np.outer(moved, change) / product
            metric = left @ metric @ left.T + np.outer(moved, moved) / product
    return point, value
