"""ROC and residuals of what the script saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from barograph.queries.predictions import predictions_in


def test_scores_of_two_classes_are_one_curve(diary: Any) -> None:
    diary.step(3, saved={"targets": np.array([0, 0, 1, 1]), "predictions": np.array([0.1, 0.4, 0.35, 0.8])})

    (found,), residuals, refused = predictions_in(diary.ended())

    assert (found.step, found.label, found.positives, found.negatives, found.area) == (3, 1, 2, 2, 0.75)
    assert (residuals, refused) == ((), [])


def test_a_column_of_scores_a_class_is_a_curve_a_class(diary: Any) -> None:
    scores = np.eye(3)[[0, 1, 2, 2]]
    diary.step(0, saved={"valid.targets": np.array([0, 1, 2, 1]), "valid.predictions": scores})

    roc, _, _ = predictions_in(diary.ended())

    assert [(item.name, item.label) for item in roc] == [
        ("valid.predictions", 0), ("valid.predictions", 1), ("valid.predictions", 2),
    ]
    assert roc[0].area == 1.0
    assert roc[1].area == 0.75


def test_numbers_that_are_no_classes_have_residuals(diary: Any) -> None:
    targets = np.array([1.0, 2.0, 3.0, np.nan], np.float32)
    diary.step(0, saved={"targets": targets, "predictions": np.array([1.5, 2.0, 2.5, 1.0], np.float32)})

    _, (found,), _ = predictions_in(diary.ended())

    assert (found.count, found.nonfinite, found.mean, found.mean_abs) == (4, 1, 0.0, pytest.approx(1 / 3))
    assert found.r2 == pytest.approx(0.75)
    assert sum(found.counts) == 3
    assert found.residuals == (0.5, 0.0, -0.5)


def test_the_last_step_at_which_both_were_saved_counts(diary: Any) -> None:
    for number in range(3):
        diary.step(number, saved={"targets": np.array([0, 1]), "predictions": np.array([0.2, 0.1 + number])})
    diary.step(9, saved={"targets": np.array([0, 1])})

    (found,), _, _ = predictions_in(diary.ended())

    assert (found.step, found.area) == (2, 1.0)


@pytest.mark.parametrize(("targets", "predictions", "why"), [
    (np.zeros(3), np.zeros((2, 2)), "has shape (3,)"), (np.array([0.5, 1.0]), np.zeros((2, 3)), "class numbers"),
    (np.zeros((2, 2, 2)), np.zeros(8), "has shape"),
])
def test_what_does_not_fit_together_is_named(
    diary: Any, targets: np.ndarray, predictions: np.ndarray, why: str
) -> None:
    diary.step(0, saved={"targets": targets, "predictions": predictions})

    roc, residuals, (refusal,) = predictions_in(diary.ended())

    assert (roc, residuals) == ((), ())
    assert why in refusal


def test_one_class_alone_has_no_curve(diary: Any) -> None:
    diary.step(0, saved={"targets": np.zeros(4), "predictions": np.eye(4)})

    assert predictions_in(diary.ended())[0] == ()


def test_a_single_constant_target_has_no_r2(diary: Any) -> None:
    diary.step(0, saved={"targets": np.full(3, 2.5), "predictions": np.array([2.0, 2.5, 3.0])})

    _, (found,), _ = predictions_in(diary.ended())

    assert np.isnan(found.r2)


def test_only_what_softmax_makes_of_a_row_ranks_the_samples(diary: Any) -> None:
    random = np.random.default_rng(0)
    targets = random.integers(0, 3, 60)
    logits = random.normal(size=(60, 3)) + 2 * np.eye(3)[targets]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for step, rows in enumerate((shares, logits, logits + random.normal(0, 50, (60, 1)))):
        diary.step(step, saved={f"{step}.targets": targets, f"{step}.predictions": rows})

    roc, _, refused = predictions_in(diary.ended())

    areas = [item.area for item in roc]
    assert len(areas) == 9
    assert areas[3:6] == pytest.approx(areas[:3])
    assert areas[6:] == pytest.approx(areas[:3])
    assert refused == []


def test_two_columns_rank_by_how_far_one_stands_above_the_other(diary: Any) -> None:
    scores = np.array([[5, 6], [1, 2], [9, 8], [7, 6.5]])
    diary.step(0, saved={"targets": np.array([1, 1, 0, 0]), "predictions": scores})

    (found,), _, _ = predictions_in(diary.ended())

    assert found.area == 1.0


def test_predictions_that_are_not_finite_are_said_to_be_left_out(diary: Any) -> None:
    scores = np.array([0.1, np.nan, 0.35, 0.8])
    diary.step(0, saved={"targets": np.array([0, 0, 1, 1]), "predictions": scores})
    diary.step(0, saved={"valid.targets": np.array([0, 1]), "valid.predictions": np.array([np.nan, np.nan])})

    roc, _, refused = predictions_in(diary.ended())

    assert [item.negatives for item in roc] == [1]
    assert refused == [
        "1 of 4 predictions in predictions are not finite; the ROC curves leave them out.",
        "2 of 2 predictions in valid.predictions are not finite; the ROC curves leave them out.",
        "All targets with finite predictions in valid.predictions have the same class: no ROC curve.",
    ]


@pytest.mark.parametrize(("targets", "predictions"), [
    ([1.5], [2.5]),
    ([0.25, 0.5, 0.75], [0.25 + 2**-54, 0.5 + 2**-54, 0.75]),
    (np.linspace(0.1, 9.7, 50), np.linspace(0.1, 9.7, 50) + 0.3),
])
def test_odd_residuals_are_residuals_all_the_same(diary: Any, targets: Any, predictions: Any) -> None:
    diary.step(0, saved={"targets": np.array(targets, np.float64), "predictions": np.array(predictions, np.float64)})

    _, (found,), _ = predictions_in(diary.ended())

    assert sum(found.counts) == found.count - found.nonfinite > 0
