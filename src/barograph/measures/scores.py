"""Confusion matrices, ROC, precision and recall, for validated arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NORMALIZATIONS = ("true", "pred", "all")
"""Divisors of a confusion matrix: the counts of targets, of predictions, or all."""


class Roc(NamedTuple):
    """A ROC curve, with descending thresholds.

    Attributes:
        false_positives, true_positives: Rates, from 0 to 1. Shape (n,). NaN without negative or positive samples.
        thresholds: Scores from which on a sample is predicted positive; the first is infinite. Shape (n,).
    """

    false_positives: Floats
    true_positives: Floats
    thresholds: Floats


class PrecisionRecall(NamedTuple):
    """A precision-recall curve, with ascending thresholds.

    Attributes:
        precision, recall: Shape (n + 1,); the last values, 1 and 0, have no threshold.
        thresholds: Shape (n,).
    """

    precision: Floats
    recall: Floats
    thresholds: Floats


def confusion(
    target: NDArray[np.int64], predictions: NDArray[np.int64], classes: int, weights: Floats | None = None
) -> Floats:
    """Return the confusion matrix: rows are targets, columns are predictions.

    Args:
        target, predictions: Class numbers from 0. Shape (n,).
        classes: Number of classes.
        weights: Weight of each sample; None: 1. Shape (n,).

    Example:
        >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
        [[1.0, 0.0], [1.0, 1.0]]
    """
    counts = np.bincount(target * classes + predictions, weights, classes * classes)
    return counts.reshape(classes, classes).astype(np.float64)


def normalized(counts: Floats, by: str) -> Floats:
    """Return a confusion matrix as shares of its rows ("true"), its columns ("pred") or its sum ("all"); 0 if that is
    0.

    Example:
        >>> normalized(np.array([[1.0, 0.0], [1.0, 1.0]]), "true").tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    axis = {"true": 1, "pred": 0, "all": None}[by]
    whole = counts.sum(axis=axis, keepdims=True)
    shares = np.zeros_like(counts)
    np.divide(counts, whole, out=shares, where=whole != 0)
    return shares


def roc_curve(
    positive: Flags, scores: Floats, weights: Floats | None = None, *, corners_alone: bool = False
) -> Roc:
    """Return false positive and true positive rates for each possible threshold.

    Equal scores make one step, so ties count as chance.

    Args:
        positive: Whether each sample is of the class. Shape (n,), n > 0.
        scores: Scores, higher for the class. Shape (n,), finite.
        weights: Weight of each sample; None: 1. Samples of weight 0 make no threshold. Shape (n,).
        corners_alone: Leave out points on the line between their neighbors; the curve is the same.

    Example:
        >>> false, true, thresholds = roc_curve(np.array([True, False, True]), np.array([0.9, 0.8, 0.1]))
        >>> false.tolist(), true.tolist(), thresholds.tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0], [inf, 0.9, 0.8, 0.1])

    Source: Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006, algorithm 1.
    """
    false, true, thresholds = _counts_by_threshold(positive, scores, weights)
    if corners_alone and len(false) > 2:
        bends = (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0)
        kept = np.concatenate(([True], bends, [True]))
        false, true, thresholds = false[kept], true[kept], thresholds[kept]
    return Roc(_share(np.append(0.0, false)), _share(np.append(0.0, true)), np.append(math.inf, thresholds))


def area_under(false_positives: Floats, true_positives: Floats) -> float:
    """Return the area under a ROC curve, by trapezoids; NaN if a rate is.

    Example:
        >>> area_under(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))
        1.0
    """
    widths, heights = np.diff(false_positives), (true_positives[1:] + true_positives[:-1]) / 2
    return float((widths * heights).sum())


def precision_recall_curve(positive: Flags, scores: Floats, weights: Floats | None = None) -> PrecisionRecall:
    """Return precision and recall for each possible threshold; arguments as in `roc_curve`.

    Returns:
        A curve; recall is 1 everywhere if no sample is of the class.

    Example:
        >>> precision, recall, _ = precision_recall_curve(np.array([True, False, True]), np.array([0.9, 0.8, 0.1]))
        >>> precision.round(2).tolist(), recall.tolist()
        ([0.67, 0.5, 1.0, 1.0], [1.0, 0.5, 0.5, 0.0])

    Source: Davis and Goadrich, "The relationship between Precision-Recall and ROC curves", ICML 2006.
    """
    false, true, thresholds = _counts_by_threshold(positive, scores, weights)
    answered = false + true
    precision = np.divide(true, answered, out=np.zeros_like(true), where=answered != 0)
    recall = true / true[-1] if true[-1] else np.ones_like(true)
    return PrecisionRecall(np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0), thresholds[::-1])


def average_precision(precision: Floats, recall: Floats) -> float:
    """Return the average precision: precision weighted by the gain in recall at each threshold, not interpolated.

    Args:
        precision, recall: Result of `precision_recall_curve`.

    Example:
        >>> average_precision(np.array([0.5, 1.0, 1.0]), np.array([1.0, 0.5, 0.0]))
        0.75
    """
    return float(max(0.0, -(np.diff(recall) * precision[:-1]).sum()))


def _counts_by_threshold(
    positive: Flags, scores: Floats, weights: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Return the numbers of false and true positives at each threshold, in descending order."""
    if weights is not None:
        counted = weights != 0
        positive, scores, weights = positive[counted], scores[counted], weights[counted]
    order = np.argsort(-scores, kind="stable")
    sorted_scores, hits = scores[order], positive[order]
    last_of_equal = np.append(np.flatnonzero(np.diff(sorted_scores)), len(scores) - 1)
    each: Any = 1.0 if weights is None else weights[order]
    true = np.cumsum(hits * each, dtype=np.float64)[last_of_equal]
    false = np.cumsum(~hits * each, dtype=np.float64)[last_of_equal]
    return false, true, sorted_scores[last_of_equal]


def _share(counts: Floats) -> Floats:
    return counts / counts[-1] if counts[-1] > 0 else np.full_like(counts, math.nan)
