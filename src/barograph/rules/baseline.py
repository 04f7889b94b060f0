"""The loss of a constant prediction: the entropy of the labels, or the variance of the targets.

A model at that level has learned nothing from its inputs, whatever its first loss was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from barograph.model.key import Key, Kind
from barograph.rules.clues import counts_of, labels_of
from barograph.rules.columns import TOTAL_LOSS
from barograph.rules.once import once_a_view
from barograph.runs.reading.view import StepView

SOFTMAX_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "categorical_crossentropy", "sparse_categorical_crossentropy",
    "softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "safe_softmax_cross_entropy",
    "SoftmaxCrossEntropyLoss",
})
"""Names of losses over mutually exclusive classes in PyTorch, Keras, Optax and MXNet."""

FAR_FROM_CHANCE = 3.5
"""Multiple of ln C above which a first loss over C classes is far above chance."""

BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "binary_crossentropy",
                           "sigmoid_binary_cross_entropy", "SigmoidBinaryCrossEntropyLoss"})
"""Names of binary losses."""

CLASS_LOSSES = SOFTMAX_LOSSES | BINARY_LOSSES
"""Names of losses over classes, in nats, whose baseline follows from the labels alone."""

SQUARES = frozenset({"mse_loss", "mse", "mean_squared_error", "squared_error"})
"""Names of the mean squared error."""

HALVED_SQUARES = frozenset({"l2_loss"})
"""Names of half the mean squared error."""

DISTANCES = SQUARES | HALVED_SQUARES | {
    "l1_loss", "smooth_l1_loss", "huber_loss", "mae", "mean_absolute_error", "huber", "L1Loss", "L2Loss", "HuberLoss",
}
"""Names of losses that grow with the distance of a prediction from its target."""

NEVER_NEGATIVE = (CLASS_LOSSES - {"nll_loss"}) | DISTANCES
"""Names of losses that cannot be negative for valid labels and targets."""

_MOST_CLASSES = 1000
_LEAST_LABELS = 200
_LEAST_TARGETS = 50
_RECENT = 3
_MOVED = 1.5
_MOST_MICRO_BATCHES = 16


@once_a_view
def plain_loss(view: StepView) -> tuple[Key, float] | None:
    """Return the value of the step's loss function if that alone is minimized; else None.

    A sum of several losses, or one computed by the script itself, does not count: it may mean anything, and rise.
    The loss of each micro-batch may have been divided by their number.

    Example:
        >>> total, squares = Key(Kind.LOSS, "total"), Key(Kind.LOSS, "mse_loss")
        >>> plain_loss(StepView.of(0, {total: 2.0, squares: 2.0}))[0].path
        'mse_loss'
        >>> plain_loss(StepView.of(0, {total: 2.7, squares: 2.0})) is None
        True
    """
    losses = view.scalars(Kind.LOSS)
    total = losses.get(TOTAL_LOSS)
    for key in sorted(losses):
        if key != TOTAL_LOSS and key.path in CLASS_LOSSES | DISTANCES:
            value = losses[key]
            if math.isfinite(value) and (total is None or _is_a_part(total, value)):
                return key, value
    return None


def _is_a_part(total: float, value: float) -> bool:
    if total == value:
        return True
    if total == 0 or not math.isfinite(total):
        return False
    times = value / total
    return 1 <= round(times) <= _MOST_MICRO_BATCHES and abs(times - round(times)) < 1e-4 * times


def note_targets(view: StepView, memory: dict[str, Any]) -> None:
    """Add up the labels and targets of a step for each loss."""
    for loss, counts in labels_of(view).items():
        known: dict[str, float] = memory.setdefault("labels", {}).setdefault(loss, {})
        if len(known) + len(counts_of(view)[loss]) > 2 * _MOST_CLASSES:
            # With so many classes any frequency is usual, and remembering them all would cost too much.
            continue
        for name, count in counts:
            known[name] = known.get(name, 0.0) + count
    if Kind.TARGET not in view.kinds:
        return
    for subject, targets in view.summaries(Kind.TARGET):
        if targets.nonfinite or not targets.count:
            continue
        sums = memory.setdefault("targets", {}).setdefault(subject.key.path, {"sums": [0.0, 0.0, 0.0], "levels": []})
        sums["sums"] = [before + now for before, now in
                        zip(sums["sums"], (targets.count, targets.sum, targets.sum_sq), strict=True)]
        # The first few and the last few, to see whether they moved.
        sums["levels"].append(targets.rms)
        if len(sums["levels"]) > 2 * _RECENT:
            del sums["levels"][_RECENT]


def entropy(counts: Collection[float]) -> float:
    """Return the entropy of classes in nats: the cross-entropy of always predicting their frequencies.

    Example:
        >>> round(entropy([500.0, 500.0]), 4)
        0.6931
    """
    total = sum(counts)
    return math.log(total) - sum([count * math.log(count) for count in counts]) / total


def baseline_of(loss: str, memory: Mapping[str, Any]) -> float | None:
    """Return the loss of a constant prediction for the labels and targets noted so far; None if unknown.

    Example:
        >>> memory = {"labels": {"cross_entropy": {"0": 500.0, "1": 500.0}}}
        >>> round(baseline_of("cross_entropy", memory), 4)
        0.6931
    """
    if loss in CLASS_LOSSES:
        counts: dict[str, float] = memory.get("labels", {}).get(loss, {})
        total = sum(counts.values())
        if total < _LEAST_LABELS or len(counts) < 2:
            return None
        return entropy(counts.values())
    if loss in SQUARES | HALVED_SQUARES:
        count, total, squares = memory.get("targets", {}).get(loss, {}).get("sums", (0.0, 0.0, 0.0))
        if count < _LEAST_TARGETS:
            return None
        variance = float(squares / count - (total / count) ** 2)
        # For nearly constant targets the variance is rounding error.
        level = variance / 2 if loss in HALVED_SQUARES else variance
        return level if variance > 1e-9 * squares / count else None
    return None


def target_level(loss: str, memory: Mapping[str, Any]) -> float | None:
    """Return the root mean square of a loss's targets; None if none were noted."""
    levels = memory.get("targets", {}).get(loss, {}).get("levels")
    return max(levels) if levels else None


def targets_stand(loss: str, memory: Mapping[str, Any]) -> bool:
    """Return whether the targets of a loss are known to have kept their size.

    If a model computes its own targets (Q-learning), they grow as it learns, and the loss with them.
    """
    levels = memory.get("targets", {}).get(loss, {}).get("levels", [])
    if len(levels) < 2:
        return False
    half = len(levels) // 2
    first, last = sorted(levels[:half]), sorted(levels[-half:])
    return bool(last[len(last) // 2] <= _MOVED * first[len(first) // 2])
