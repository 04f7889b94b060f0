"""t-SNE: points in two dimensions whose neighbors are those of the original vectors.

The exact algorithm, for up to some thousand vectors. It is its own small implementation because a sequence of frames
needs two things: each frame starts from the previous one, and the result never depends on random numbers.

Source: van der Maaten & Hinton, "Visualizing data using t-SNE", 2008.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from barograph.measures.projection import pca_axes, squared_distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_EXAGGERATION = 12.0
_SEARCHES = 50
_TINY = 1e-12


def affinities(vectors: Floats, perplexity: float) -> Floats:
    """Return the symmetric probabilities of pairs to be neighbors, shape (n, n); they sum up to 1.

    Args:
        vectors: Shape (n, features).
        perplexity: Effective number of neighbors of each; at most about a third of n.
    """
    distances = squared_distances(vectors, vectors)
    np.fill_diagonal(distances, 0.0)
    off = ~np.eye(len(vectors), dtype=bool)
    scale = float(np.mean(distances[off])) or 1.0
    distances /= scale
    wanted = np.log(perplexity)
    precision, low, high = np.ones(len(vectors)), np.zeros(len(vectors)), np.full(len(vectors), np.inf)
    least = np.where(off, distances, np.inf).min(1, keepdims=True)
    for _ in range(_SEARCHES):
        found = np.where(off, np.exp(-(distances - least) * precision[:, None]), 0.0)
        total = found.sum(1)
        entropy = np.log(total) + precision * (found * (distances - least)).sum(1) / total
        wide = entropy > wanted
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        precision = np.where(np.isinf(high), precision * 2, (low + high) / 2)
    found /= total[:, None]
    joint: Floats = (found + found.T) / (2 * len(vectors))
    return joint


def tsne(
    vectors: Floats, *, start: Floats | None = None, perplexity: float = 30.0, iterations: int | None = None
) -> Floats:
    """Return points in two dimensions, shape (n, 2).

    Args:
        vectors: Shape (n, features), finite.
        start: Points of the previous frame, which this one continues; None: the principal components.
        perplexity: Effective number of neighbors; less if there are few vectors.
        iterations: Number of iterations; None: 1000 for a first frame, 150 for one that continues.
    """
    count = len(vectors)
    if count < 4:
        return np.zeros((count, 2)) if start is None else start.copy()
    joint = np.maximum(affinities(vectors, min(perplexity, (count - 1) / 3)), _TINY)
    if start is None:
        mean, axes, _ = pca_axes(vectors)
        points = (vectors - mean) @ axes.T
        points *= 1e-4 / (float(points[:, 0].std()) or 1.0)
    else:
        points = start.copy()
    rounds = iterations if iterations is not None else (1000 if start is None else 150)
    early = rounds // 2 if start is None else 0
    rate = max(count / _EXAGGERATION / 4, 50.0)
    speed, gains = np.zeros_like(points), np.ones_like(points)
    for number in range(rounds):
        slope = _gradient(points, joint * (_EXAGGERATION if number < early else 1.0))
        if number == early:
            speed, gains = np.zeros_like(points), np.ones_like(points)
        gains = np.maximum(np.where(slope * speed < 0, gains + 0.2, gains * 0.8), 0.01)
        speed = (0.5 if number < early else 0.8) * speed - rate * gains * slope
        points += speed
        points -= points.mean(0)
    return points


def divergence(points: Floats, joint: Floats) -> float:
    """Return the Kullback-Leibler divergence that t-SNE minimizes."""
    near = _nearness(points)
    return float((joint * np.log(np.maximum(joint, _TINY) / np.maximum(near / near.sum(), _TINY))).sum())


def _nearness(points: Floats) -> Floats:
    found = 1.0 / (1.0 + squared_distances(points, points))
    np.fill_diagonal(found, 0.0)
    return found


def _gradient(points: Floats, joint: Floats) -> Floats:
    near = _nearness(points)
    pull = (joint - near / near.sum()) * near
    slope: Floats = 4.0 * (pull.sum(1)[:, None] * points - pull @ points)
    return slope
