"""Confusion matrices, ROC curves and precision-recall curves, equal to scikit-learn's, without the dependency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from barograph.errors import SettingsError
from barograph.measures.scores import (
    NORMALIZATIONS,
    Flags,
    Floats,
    area_under,
    average_precision,
    confusion,
    normalized,
    precision_recall_curve,
    roc_curve,
)
from barograph.model.exhibits import (
    ConfusionMatrix,
    PrecisionRecallCurves,
    PrecisionRecallOfClass,
    RocCurves,
    RocOfClass,
)

MOST_POINTS = 5000
"""Maximum number of stored points of a curve; areas are computed from all."""

MOST_CLASSES = 1000
"""Maximum number of classes of a confusion matrix."""

_Kept = TypeVar("_Kept")


def confusion_matrix_of(
    y_true: Any, y_pred: Any, title: str, *, labels: Iterable[Any] | None, normalize: str | None, sample_weight: Any
) -> ConfusionMatrix:
    """Return the confusion matrix of predictions; arguments and errors as in `Run.log_confusion_matrix`."""
    target, predictions = _labels("y_true", y_true), _labels("y_pred", y_pred)
    _check_length("y_pred", predictions, target)
    weights = _weights(sample_weight, len(target))
    if normalize is not None and normalize not in NORMALIZATIONS:
        raise SettingsError(f'normalize is "{normalize}"; use one of {", ".join(NORMALIZATIONS)}, or None.')
    known = _known(labels) if labels is not None else _classes(target, predictions)
    if len(known) > MOST_CLASSES:
        raise SettingsError(f"There are {len(known):,} classes; a confusion matrix shows at most {MOST_CLASSES:,}. "
                            "If these are classes and not scores, select some with labels=.")
    number = {label: at for at, label in enumerate(known)}
    pairs = np.array(
        [
            (number.get(one, -1), number.get(other, -1))
            for one, other in zip(target.tolist(), predictions.tolist(), strict=True)
        ],
        np.int64,
    ).reshape(-1, 2)
    counted = (pairs >= 0).all(axis=1)
    if labels is not None and not (pairs[:, 0] >= 0).any():
        raise SettingsError(f"None of the labels {_shown(known)} occurs in y_true, which has "
                            f"{_shown(_classes(target))}.")
    counts = confusion(pairs[counted, 0], pairs[counted, 1], len(known), None if weights is None else weights[counted])
    if normalize is not None:
        counts = normalized(counts, normalize)
    return ConfusionMatrix(title, tuple(map(str, known)), tuple(map(tuple, counts.tolist())), normalize or "")


def roc_curves_of(
    y_true: Any, y_score: Any, title: str, *, positive_label: Any, labels: Iterable[Any] | None, sample_weight: Any
) -> RocCurves:
    """Return ROC curves of scores; arguments and errors as in `Run.log_roc_curve`."""
    def curve(label: str, positive: Flags, scores: Floats, weights: Floats | None) -> RocOfClass:
        false, true, thresholds = roc_curve(positive, scores, weights, corners_alone=True)
        kept = _kept(len(false))
        return RocOfClass(label, *_sizes(positive, weights), area_under(false, true), _tuple(false[kept]),
                          _tuple(true[kept]), _tuple(thresholds[kept]))

    return RocCurves(title, _by_class(y_true, y_score, "y_score", positive_label, labels, sample_weight, curve))


def precision_recall_of(
    y_true: Any, predicted_probabilities: Any, title: str, *, positive_label: Any, labels: Iterable[Any] | None,
    sample_weight: Any, no_skill: float | None,
) -> PrecisionRecallCurves:
    """Return precision-recall curves; arguments and errors as in `Run.log_precision_recall`."""
    def curve(label: str, positive: Flags, scores: Floats, weights: Floats | None) -> PrecisionRecallOfClass:
        precision, recall, thresholds = precision_recall_curve(positive, scores, weights)
        kept = _kept(len(recall))
        return PrecisionRecallOfClass(
            label, *_sizes(positive, weights), average_precision(precision, recall), _tuple(precision[kept]),
            _tuple(recall[kept]), _tuple(thresholds[kept[:-1]]))

    return PrecisionRecallCurves(title, _by_class(
        y_true, predicted_probabilities, "predicted_probabilities", positive_label, labels, sample_weight, curve,
    ), None if no_skill is None else float(no_skill))


def _by_class(
    y_true: Any, y_score: Any, name: str, positive_label: Any, labels: Iterable[Any] | None, sample_weight: Any,
    curve: Callable[[str, Flags, Floats, Floats | None], _Kept],
) -> tuple[_Kept, ...]:
    """Return the curve of the positive class or, for several columns of scores, of each class against the others."""
    target, scores = _labels("y_true", y_true), _scores(name, y_score)
    _check_length(name, scores, target)
    weights = _weights(sample_weight, len(target))
    classes = _known(labels) if labels is not None else _classes(target)
    if scores.ndim == 1:
        label = _positive(classes, positive_label)
        return (curve(str(label), _equals(target, label), scores, weights),)
    if len(classes) != scores.shape[1]:
        raise SettingsError(f"{name} has {scores.shape[1]} columns, but y_true has the classes {_shown(classes)}. "
                            "Pass one column per class, or name the classes of the columns, in order, with "
                            "labels=.")
    strange = [label for label in _classes(target) if label not in set(classes)]
    if strange:
        raise SettingsError(f"y_true has {_shown(strange)}, missing from labels={_shown(classes)}.")
    if positive_label is not None or len(classes) == 2:
        label = classes[1] if positive_label is None else _positive(classes, positive_label)
        return (curve(str(label), _equals(target, label), scores[:, classes.index(label)], weights),)
    return tuple(curve(str(label), _equals(target, label), scores[:, at], weights)
                 for at, label in enumerate(classes))


def _positive(classes: Sequence[Any], said: Any) -> Any:
    if said is not None:
        if said not in classes:
            raise SettingsError(f"positive_label is {said!r}, which is not one of the classes {_shown(classes)}.")
        return said
    if len(classes) > 2:
        raise SettingsError(f"y_true has the classes {_shown(classes)}, but there is only one score per sample. "
                            "Choose the positive class with positive_label=, or pass one column of scores per "
                            "class.")
    if not set(classes) <= {0, 1} and not set(classes) <= {-1, 1}:
        raise SettingsError(f"y_true has the classes {_shown(classes)}. Choose the positive class with "
                            "positive_label=.")
    return 1


def _array(name: str, values: Any) -> NDArray[Any]:
    """Return a list, a column of a table or a framework's tensor as an array."""
    if callable(getattr(values, "detach", None)):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{name} must be a list with one value per sample: {error}.") from error


def _labels(name: str, values: Any) -> NDArray[Any]:
    found = _array(name, values)
    found = found.reshape(-1) if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or not len(found):
        hint = " Use the class of each row: numpy.argmax(…, axis=1)." if found.ndim == 2 else ""
        raise SettingsError(f"{name} has shape {found.shape}, expected one label per sample and at least one "
                            f"sample.{hint}")
    if found.dtype == object and any(label is None or label != label for label in found.tolist()):
        raise SettingsError(f"{name} contains None or NaN. Remove those samples.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise SettingsError(f"{name} contains {int((~np.isfinite(found)).sum()):,} NaN or infinite values. Remove "
                            "those samples.")
    return found


def _scores(name: str, values: Any) -> Floats:
    try:
        found = _array(name, values).astype(np.float64)
    except (ValueError, TypeError):
        raise SettingsError(f"{name} must be numbers, higher for more likely.") from None
    found = found.reshape(-1) if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim not in (1, 2):
        raise SettingsError(f"{name} has shape {found.shape}, expected one score per sample or one per sample and "
                            "class.")
    bad = int((~np.isfinite(found)).sum())
    if bad:
        raise SettingsError(f"{name} contains {bad:,} NaN or infinite scores. Remove those samples.")
    return found


def _weights(values: Any, count: int) -> Floats | None:
    if values is None:
        return None
    found = _scores("sample_weight", values)
    if found.shape != (count,) or (found < 0).any() or not found.sum() > 0:
        raise SettingsError(f"sample_weight must have one number >= 0 for each of the {count:,} samples, and not "
                            "all 0.")
    return found


def _check_length(name: str, values: NDArray[Any], target: NDArray[Any]) -> None:
    if len(values) != len(target):
        raise SettingsError(f"y_true has {len(target):,} samples but {name} has {len(values):,}.")


def _classes(*arrays: NDArray[Any]) -> list[Any]:
    known = {label for array in arrays for label in array.tolist()}
    try:
        return sorted(known)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in known})
        raise SettingsError(f"Labels have different types ({', '.join(kinds)}) and cannot be sorted. Use only "
                            "numbers or only strings.") from None


def _known(labels: Iterable[Any]) -> list[Any]:
    found: list[Any] = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not found or len(set(found)) < len(found):
        raise SettingsError("labels must have at least one class, and no duplicates.")
    return found


def _equals(target: NDArray[Any], label: Any) -> Flags:
    return np.array([one == label for one in target.tolist()], np.bool_) if target.dtype == object else np.asarray(
        target == label, np.bool_)


def _sizes(positive: Flags, weights: Floats | None) -> tuple[float, float]:
    each = np.ones(len(positive)) if weights is None else weights
    return float(each[positive].sum()), float(each[~positive].sum())


def _kept(count: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(MOST_POINTS, count)).round().astype(np.int64))


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _shown(labels: Sequence[Any]) -> str:
    return ", ".join(map(repr, labels[:8])) + (" …" if len(labels) > 8 else "")
