"""Detects predictions that are independent of the labels, from the confusion counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from barograph.rules.clues import confusions_of
from barograph.runs.reading.view import StepView

_MOST_CLASSES = 20
_LEAST_LABELS = 200
_LABELS_EACH = 20
"""Labels per degree of freedom: with fewer, predictions slightly better than chance look unrelated."""
_SPREADS = 3.0
_LEAST_PREDICTIONS = 100
_ERRORS_OF_CHANCE = 2.0
_RARE = 0.8
"""If one class has more than this share of all labels, a constant prediction is expected."""


def note_predictions(view: StepView, memory: dict[str, Any]) -> None:
    """Add the confusion counts of a step, per loss; keeps the last few hundred."""
    for loss, pairs in confusions_of(view).items():
        if len({label for pair in pairs for label in pair}) > _MOST_CLASSES:
            continue
        halves: list[dict[str, float]] = memory.setdefault("answers", {}).setdefault(loss, [{}, {}])
        now = Counter(halves[1])
        now.update({f"{target},{prediction}": count for (target, prediction), count in pairs.items()})
        classes = len({target for target, _ in _counts([now])})
        halves[1] = dict(now)
        if now.total() >= max(_LEAST_LABELS, _LABELS_EACH * (classes - 1) ** 2):
            halves[:] = [halves[1], {}]


def are_unrelated(memory: Mapping[str, Any], loss: str) -> bool:
    """Return whether the last few hundred predictions are independent of the labels.

    They are if χ² of the counts is what chance gives, or if all predictions are equal and no class has most of
    the labels. False also if there are too few labels.

    Args:
        memory: Memory of a rule that calls `note_predictions` in each step.
        loss: The loss that has the labels.

    Example:
        >>> by_lot, learned = {"0,0": 90, "0,1": 60, "1,0": 91, "1,1": 59}, {"0,0": 90, "0,1": 60, "1,0": 60, "1,1": 90}
        >>> [are_unrelated({"answers": {"nll_loss": [counts, {}]}}, "nll_loss") for counts in (by_lot, learned)]
        [True, False]

    Source: Pearson, "On the criterion that a given system of deviations …", 1900.
    """
    halves = memory.get("answers", {}).get(loss)
    if not halves or not halves[0]:
        return False
    counts = _counts(halves)
    targets, predictions = Counter[str](), Counter[str]()
    for (target, prediction), count in counts.items():
        targets[target] += count
        predictions[prediction] += count
    total = targets.total()
    freedom = (len(targets) - 1) * (len(predictions) - 1)
    if len(targets) < 2:
        return False
    if not freedom:
        return max(targets.values()) <= _RARE * total
    chi = sum(
        (counts[target, prediction] - expected) ** 2 / expected
        for target in targets
        for prediction in predictions
        if (expected := targets[target] * predictions[prediction] / total)
    )
    return chi < freedom + _SPREADS * math.sqrt(2 * freedom)


def are_guesses(pairs: Mapping[tuple[int, int], float]) -> bool:
    """Return whether no more predictions are correct than by chance; False if there are too few.

    Args:
        pairs: Count of each pair of target and predicted class.

    Example:
        >>> by_lot, learned = {(0, 0): 30.0, (0, 1): 30.0, (1, 0): 29.0, (1, 1): 31.0}, {(0, 0): 60.0, (1, 1): 60.0}
        >>> are_guesses(by_lot), are_guesses(learned), are_guesses({(0, 1): 5.0, (1, 0): 5.0})
        (True, False, False)

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960, on agreement by chance.
    """
    total = sum(pairs.values())
    if total < _LEAST_PREDICTIONS:
        return False
    targets, predictions = Counter[int](), Counter[int]()
    for (target, prediction), count in pairs.items():
        targets[target] += count  # type: ignore[assignment]
        predictions[prediction] += count  # type: ignore[assignment]
    chance = sum(count * predictions[name] for name, count in targets.items()) / total**2
    correct = sum(count for (target, prediction), count in pairs.items() if target == prediction)
    return correct <= chance * total + _ERRORS_OF_CHANCE * math.sqrt(chance * (1 - chance) * total)


def _counts(halves: list[Mapping[str, float]] | list[Counter[str]]) -> Counter[tuple[str, str]]:
    """Return the count of each pair of label and prediction."""
    found = Counter[tuple[str, str]]()
    for half in halves:
        for pair, count in half.items():
            target, _, prediction = pair.partition(",")
            found[target, prediction] += count  # type: ignore[assignment]
    return found
