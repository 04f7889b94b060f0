"""Cross-validation: parts of the rows, each of which validates a model that is trained on the others.

Few rows for validation cannot tell a good model from a lucky one; all rows can.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from barograph.errors import SettingsError
from barograph.jobs.algorithms.columns import Target
from barograph.jobs.algorithms.results import scores
from barograph.jobs.algorithms.table_prediction import counted

FOLDS, FEW_ROWS = 5, 2000
"""With fewer rows, `auto` is so many folds; more rows tell models apart with one part, in a fifth of the time."""


def number_of_folds(wanted: int, target: Target) -> int:
    """Return the number of folds; 1: validation on one part.

    Args:
        wanted: As typed; 0: `auto`.
        target: Target of the rows for training.

    Raises:
        SettingsError: There are fewer rows, or fewer of a class.
    """
    least, of = _least_rows(target)
    if wanted > least:
        raise SettingsError(f"--folds is {wanted}, but there are only {counted(least, 'row')}{of}. Use fewer "
                            "folds.")
    return wanted or (FOLDS if least >= FOLDS and len(target.values) < FEW_ROWS else 1)


def folds_of(target: Target, count: int, seed: int) -> list[Any]:
    """Return the rows of each fold, ascending. Each has the same part of every class.

    Example:
        >>> [fold.tolist() for fold in folds_of(Target(np.zeros(5), None, ""), 2, seed=1)]
        [[1, 3, 4], [0, 2]]
    """
    random = np.random.default_rng(seed)
    mixed = random.permutation(len(target.values))
    by_class = mixed[np.argsort(target.values[mixed], kind="stable")] if target.classes else mixed
    return [np.sort(by_class[first::count]) for first in range(count)]


def mean_scores(targets: Sequence[Any], predictions: Sequence[Any], classes: Sequence[str]) -> dict[str, float]:
    """Return the means over all folds of metrics that every fold has.

    Args:
        targets, predictions: Of each fold, as for `results.scores`.
        classes: Names of the classes; empty for regression.
    """
    found = [scores(target, made, classes) for target, made in zip(targets, predictions, strict=True)]
    return {name: fmean(one[name] for one in found) for name in found[0] if all(name in one for one in found)}


def _least_rows(target: Target) -> tuple[int, str]:
    """Return how many rows the rarest class has, and its name for a message; for regression, all rows."""
    if not target.classes:
        return len(target.values), ""
    counts = np.bincount(target.values.astype(int), minlength=len(target.classes))
    rarest = int(counts.argmin())
    return int(counts[rarest]), f' of the class "{target.classes[rarest]}"'
