"""ROC curves and residuals from saved targets and predictions.

By convention: `run.save("targets", …)` and `run.save("predictions", …)` in one step, or with a common prefix, as in
"valid.targets" and "valid.predictions". The last such step is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedChunk, SplitTensor, UnknownStep
from barograph.measures.scores import area_under, roc_curve
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.runs.reading.reader import RunReader

TARGETS, PREDICTIONS = "targets", "predictions"
"""Suffixes of the names under which a script saves them."""

MOST_SAMPLES = 2_000_000
"""Maximum number of samples; more are evenly subsampled."""

MOST_ROC = 20
"""Maximum number of classes with a curve."""

_POINTS = 120
_BINS = 40
_SCATTERED = 400

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Roc:
    """ROC curve of a class.

    Attributes:
        name: Name of the saved scores.
        step: Step.
        label: The class.
        positives, negatives: Number of samples of the class, and of others.
        area: AUC: 0.5 is chance, 1 is perfect.
        false_positives, true_positives: Rates along the curve.
    """

    name: str
    step: int
    label: int
    positives: int
    negatives: int
    area: float
    false_positives: tuple[float, ...]
    true_positives: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals of a regression.

    Attributes:
        name: Name of the saved predictions.
        step: Step.
        count: Number of samples.
        nonfinite: Number of samples with NaN or infinite target or prediction, left out below.
        mean, std, mean_abs: Of prediction minus target.
        r2: Coefficient of determination, R².
        edges, counts: Histogram of the residuals.
        predictions, residuals: Some hundred evenly spaced samples.
    """

    name: str
    step: int
    count: int
    nonfinite: int
    mean: float
    std: float
    mean_abs: float
    r2: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    predictions: tuple[float, ...]
    residuals: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def predictions_in(run: RunReader) -> tuple[tuple[Roc, ...], tuple[Residuals, ...], list[str]]:
    """Return ROC curves and residuals, and a sentence for each unusable pair.

    Raises:
        StoreError: The store cannot be read.
    """
    roc: list[Roc] = []
    residuals: list[Residuals] = []
    refused: list[str] = []
    for name, step, targets, predictions in _pairs(run, refused):
        named = f"{name}{PREDICTIONS}"
        if len(targets) != len(predictions) or not len(targets) or targets.ndim != 1 or predictions.ndim > 2:
            refused.append(f"{name}{TARGETS} has shape {targets.shape} and {name}{PREDICTIONS} has shape "
                           f"{predictions.shape}. Save one target per sample, and one prediction or one row of "
                           "scores per sample.")
            continue
        every = -(-len(targets) // MOST_SAMPLES)
        target, prediction = targets[::every].astype(np.float64), predictions[::every].astype(np.float64)
        if _are_scores(target, prediction):
            roc += _roc(named, step, target, prediction, refused)
        elif prediction.ndim == 1:
            residuals.append(_residuals(named, step, target, prediction))
        else:
            refused.append(f"{name}{TARGETS} must be class numbers below the number of columns of "
                           f"{name}{PREDICTIONS}. They are not, so there is no ROC curve and there are no "
                           "residuals.")
    return tuple(roc), tuple(residuals), refused


def _pairs(run: RunReader, refused: list[str]) -> Iterator[tuple[str, int, NDArray[Any], NDArray[Any]]]:
    saved = {key.path for key in run.keys(Kind.CUSTOM)}
    for path in sorted(saved):
        name = path.removesuffix(TARGETS)
        if not path.endswith(TARGETS) or f"{name}{PREDICTIONS}" not in saved:
            continue
        steps = set(_steps(run, path)) & set(_steps(run, f"{name}{PREDICTIONS}"))
        if not steps:
            refused.append(f"{name}{TARGETS} and {name}{PREDICTIONS} were never saved in the same step.")
            continue
        keys, step = (Key(Kind.CUSTOM, path), Key(Kind.CUSTOM, f"{name}{PREDICTIONS}")), max(steps)
        try:
            targets, predictions = (run.tensor(key, step) for key in keys)
        except (DamagedChunk, SplitTensor, UnknownStep) as error:
            refused.append(str(error))
            continue
        yield name, step, np.atleast_1d(np.squeeze(targets)), np.atleast_1d(np.squeeze(predictions))


def _steps(run: RunReader, path: str) -> list[int]:
    steps: list[int] = run.series(Key(Kind.CUSTOM, path), "count").steps.tolist()
    return steps


def _are_scores(targets: Floats, predictions: Floats) -> bool:
    """Return whether the targets are class numbers and the predictions their scores."""
    whole = bool(np.isfinite(targets).all() and (targets >= 0).all() and (targets == np.round(targets)).all())
    if predictions.ndim == 2:
        return whole and bool((targets < predictions.shape[1]).all())
    # Two classes and one score; predictions of exactly 0 and 1 are scores, too.
    return whole and set(np.unique(targets).tolist()) == {0.0, 1.0}


def _roc(name: str, step: int, targets: Floats, predictions: Floats, refused: list[str]) -> Iterator[Roc]:
    known: NDArray[np.bool_] = np.asarray(np.isfinite(predictions.reshape(len(predictions), -1)).all(axis=1), bool)
    if not known.all():
        refused.append(f"{int((~known).sum()):,} of {len(known):,} predictions in {name} are not finite; the ROC "
                       "curves leave them out.")
    targets, scores = targets[known], _ranked(predictions[known])
    if len(np.unique(targets)) < 2:
        refused.append(f"All targets with finite predictions in {name} have the same class: no ROC curve.")
    for label, column in list(scores.items())[:MOST_ROC]:
        positive = targets == label
        if not 0 < positive.sum() < len(positive):
            continue
        false, true, _ = roc_curve(positive, column)
        kept = np.unique(np.linspace(0, len(false) - 1, min(_POINTS, len(false))).round().astype(int))
        yield Roc(name, step, label, int(positive.sum()), int((~positive).sum()), area_under(false, true),
                  tuple(false[kept].tolist()), tuple(true[kept].tolist()))


def _ranked(predictions: Floats) -> dict[int, Floats]:
    """Return the ranking scores of each class, which are invariant under softmax.

    A single column of logits means nothing: only its distance from the others in the row does.
    """
    if predictions.ndim == 1:
        return {1: predictions}
    if predictions.shape[1] == 2:
        return {1: predictions[:, 1] - predictions[:, 0]}
    sums = predictions.sum(axis=1)
    if not ((predictions >= 0).all() and np.allclose(sums, 1.0, atol=1e-3)):
        greatest = predictions.max(axis=1, keepdims=True, initial=-np.inf)
        predictions = predictions - greatest - np.log(np.exp(predictions - greatest).sum(axis=1, keepdims=True))
    return {label: predictions[:, label] for label in range(predictions.shape[1])}


def _histogram(values: Floats) -> tuple[NDArray[Any], Floats]:
    if not len(values):
        return np.empty(0, int), np.empty(0)
    try:
        return np.histogram(values, _BINS)
    except ValueError:  # values too close together for bins
        margin = 1e-6 * max(1.0, float(np.abs(values).max()))
        return np.histogram(values, _BINS, (float(values.min()) - margin, float(values.max()) + margin))


def _residuals(name: str, step: int, targets: Floats, predictions: Floats) -> Residuals:
    with np.errstate(over="ignore", invalid="ignore"):
        # Differences of numbers near the maximum may overflow.
        known = np.isfinite(targets) & np.isfinite(predictions) & np.isfinite((predictions - targets) ** 2)
    target, prediction = targets[known], predictions[known]
    rest = prediction - target
    spread = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    counts, edges = _histogram(rest)
    some = rest[:: -(-len(rest) // _SCATTERED)] if len(rest) else rest
    mean, std, mean_abs = (rest.mean(), rest.std(), np.abs(rest).mean()) if len(rest) else (np.nan,) * 3
    return Residuals(
        name, step, len(targets), int((~known).sum()), float(mean), float(std), float(mean_abs),
        r2=1.0 - float((rest**2).sum()) / spread if spread else float("nan"),
        edges=tuple(edges.tolist()), counts=tuple(counts.tolist()),
        predictions=tuple(prediction[:: -(-len(rest) // _SCATTERED)].tolist()) if len(rest) else (),
        residuals=tuple(some.tolist()),
    )
