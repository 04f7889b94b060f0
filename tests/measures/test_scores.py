"""Confusion, ROC, precision and recall are those of scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from barograph.measures.scores import (
    area_under,
    average_precision,
    confusion,
    normalized,
    precision_recall_curve,
    roc_curve,
)

metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed here")


def cases() -> list[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    random = np.random.default_rng(0)
    positive = random.random(200) < 0.3
    scores = random.normal(size=200) + positive
    weights = random.random(200)
    weights[:20] = 0.0
    return [
        ("no ties", positive, scores, None), ("ties", positive, np.round(scores, 1), None),
        ("weights", positive, np.round(scores, 1), weights), ("all equal", positive, np.zeros(200), None),
        ("two samples", np.array([True, False]), np.array([0.2, 0.8]), None),
    ]


CASES = [pytest.param(*case[1:], id=case[0]) for case in cases()]


def chance_that_a_positive_ranks_higher(positive: np.ndarray, scores: np.ndarray) -> float:
    """The area under the curve, counted pair by pair; equal scores count half."""
    wins = [(a > b) + (a == b) / 2 for a in scores[positive] for b in scores[~positive]]
    return float(np.mean(wins))


@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_the_chance_that_a_positive_ranks_higher(seed: int) -> None:
    random = np.random.default_rng(seed)
    positive = random.random(60) < 0.4
    scores = np.round(random.normal(size=60) + positive, 1)  # with ties

    assert area_under(*roc_curve(positive, scores)[:2]) == pytest.approx(
        chance_that_a_positive_ranks_higher(positive, scores))


@pytest.mark.parametrize("corners_alone", [True, False])
@pytest.mark.parametrize(("positive", "scores", "weights"), CASES)
def test_a_roc_curve_is_that_of_scikit_learn(
    positive: np.ndarray, scores: np.ndarray, weights: np.ndarray | None, corners_alone: bool
) -> None:
    false, true, thresholds = roc_curve(positive, scores, weights, corners_alone=corners_alone)
    theirs = metrics.roc_curve(positive, scores, sample_weight=weights, drop_intermediate=corners_alone)
    if weights is None:
        for ours, their in zip((false, true, thresholds), theirs, strict=True):
            np.testing.assert_allclose(ours, their, atol=1e-12)
    assert area_under(false, true) == pytest.approx(metrics.roc_auc_score(positive, scores, sample_weight=weights))


# Of weighted ones the last bit decides which points are taken to lie on a line.
def test_a_weighted_roc_curve_is_that_of_scikit_learn_point_by_point() -> None:
    positive, scores, weights = cases()[2][1:]
    for ours, their in zip(roc_curve(positive, scores, weights),
                           metrics.roc_curve(positive, scores, sample_weight=weights, drop_intermediate=False),
                           strict=True):
        np.testing.assert_allclose(ours, their, atol=1e-12)


@pytest.mark.parametrize(("positive", "scores", "weights"), CASES)
def test_precision_and_recall_are_those_of_scikit_learn(
    positive: np.ndarray, scores: np.ndarray, weights: np.ndarray | None
) -> None:
    found = precision_recall_curve(positive, scores, weights)
    theirs = metrics.precision_recall_curve(positive, scores, sample_weight=weights)
    for ours, their in zip(found, theirs, strict=True):
        np.testing.assert_allclose(ours, their, atol=1e-12)
    assert average_precision(found.precision, found.recall) == pytest.approx(
        metrics.average_precision_score(positive, scores, sample_weight=weights))


@pytest.mark.parametrize("positive", [np.ones(3, bool), np.zeros(3, bool)], ids=["positive", "negative"])
def test_of_one_class_alone_there_is_what_scikit_learn_says(positive: np.ndarray) -> None:
    scores = np.array([0.1, 0.5, 0.3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that half of it is not defined
        false, true, _ = metrics.roc_curve(positive, scores)
        precision, recall, _ = metrics.precision_recall_curve(positive, scores)
        average = metrics.average_precision_score(positive, scores)
    ours = roc_curve(positive, scores, corners_alone=True)
    np.testing.assert_array_equal(ours.false_positives, false)
    np.testing.assert_array_equal(ours.true_positives, true)
    assert math.isnan(area_under(ours.false_positives, ours.true_positives))
    found = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(found.precision, precision)
    np.testing.assert_allclose(found.recall, recall)
    assert average_precision(found.precision, found.recall) == pytest.approx(average)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("by", ["true", "pred", "all"])
def test_a_confusion_matrix_is_that_of_scikit_learn(by: str, weighted: bool) -> None:
    random = np.random.default_rng(1)
    target, predictions = random.integers(0, 4, 100), random.integers(0, 3, 100)
    weights = random.random(100) if weighted else None
    counts = confusion(target, predictions, 5, weights)
    np.testing.assert_allclose(
        counts, metrics.confusion_matrix(target, predictions, labels=range(5), sample_weight=weights)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that has no sample
        theirs = metrics.confusion_matrix(target, predictions, labels=range(5), sample_weight=weights, normalize=by)
    np.testing.assert_allclose(normalized(counts, by), theirs)
