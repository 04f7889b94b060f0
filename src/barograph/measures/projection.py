"""Projections of vectors to two dimensions, and how well classes are separated in the original space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST_FITTED = 1000
_BLOCK = 512


def pca_axes(vectors: Floats, count: int = 2) -> tuple[Floats, Floats, Floats]:
    """Return the principal axes of vectors.

    Args:
        vectors: Shape (n, features), finite. Of more than 1000, evenly spaced ones are used.
        count: Number of axes.

    Returns:
        The mean, shape (features,); the axes, shape (count, features), each with its largest component positive, and
        zero where the vectors have fewer dimensions; and each axis's share of the variance.

    Example:
        >>> mean, axes, shares = pca_axes(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 1)
        >>> mean.tolist(), np.abs(axes).round(6).tolist(), shares.round(6).tolist()
        ([2.0, 1.0], [[1.0, 0.0]], [1.0])
    """
    fitted = vectors[:: max(1, -(-len(vectors) // _MOST_FITTED))]
    mean = fitted.mean(0)
    _, sizes, found = np.linalg.svd(fitted - mean, full_matrices=False)
    axes = np.zeros((count, vectors.shape[1]))
    shares = np.zeros(count)
    squares = sizes**2
    for number in range(min(count, len(sizes))):
        if squares[number] > 0:
            axis = found[number]
            axes[number] = axis * np.sign(axis[np.abs(axis).argmax()])
            shares[number] = squares[number] / squares.sum()
    return mean, axes, shares


def rotation(points: Floats, reference: Floats) -> Floats:
    """Return the rotation, or reflection, that brings points as near as possible to reference points.

    The orthogonal Procrustes problem. Both are centered first, and distances between points do not change.

    Args:
        points, reference: Shape (n, 2), the same rows.

    Returns:
        Shape (2, 2): `points @ rotation(points, reference)` are the turned points.

    Example:
        >>> rotation(np.array([[0.0, -1.0], [0.0, 1.0]]), np.array([[-3.0, 0.0], [3.0, 0.0]]))[1].tolist()
        [1.0, 0.0]

    Source: Schönemann, "A generalized solution of the orthogonal Procrustes problem", 1966.
    """
    left, _, right = np.linalg.svd((points - points.mean(0)).T @ (reference - reference.mean(0)))
    turn: Floats = left @ right
    return turn


def squared_distances(points: Floats, others: Floats) -> Floats:
    """Return the squared distance of each point to each other one, shape (n, m)."""
    found: Floats = (points**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * points @ others.T
    return np.maximum(found, 0.0)


def neighbors(vectors: Floats, count: int) -> NDArray[np.intp]:
    """Return the nearest other vectors of each, nearest first.

    Args:
        vectors: Shape (n, features).
        count: How many of each; at most n - 1.

    Example:
        >>> neighbors(np.array([[0.0], [1.0], [5.0]]), 1).tolist()
        [[1], [0], [1]]
    """
    count = min(count, len(vectors) - 1)
    found = np.empty((len(vectors), count), np.intp)
    for start in range(0, len(vectors), _BLOCK):
        part = slice(start, start + _BLOCK)
        distances = squared_distances(vectors[part], vectors)
        distances[np.arange(len(distances)), np.arange(start, start + len(distances))] = np.inf
        found[part] = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return found


def neighbor_accuracy(vectors: Floats, labels: NDArray[np.int64], count: int = 5) -> float:
    """Return the share of vectors whose class is the most common one among their nearest neighbors.

    Chance is the share of the most common class; 1.0 means that neighbors always belong together. NaN below two
    vectors.

    Args:
        vectors: Shape (n, features).
        labels: Class of each.
        count: Number of neighbors. In a tie, the class of the nearest neighbor wins.

    Example:
        >>> neighbor_accuracy(np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([0, 0, 1, 1]), 1)
        1.0
    """
    if len(vectors) < 2:
        return float("nan")
    _, codes = np.unique(labels, return_inverse=True)
    near = codes[neighbors(vectors, count)]
    votes = np.zeros((len(vectors), codes.max() + 1))
    # A little more weight for a nearer one decides ties.
    weights = 1 + 0.1 * np.linspace(1, 0, near.shape[1]) / near.shape[1]
    for place in range(near.shape[1]):
        votes[np.arange(len(vectors)), near[:, place]] += weights[place]
    return float((votes.argmax(1) == codes).mean())
