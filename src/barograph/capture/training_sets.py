"""Recognizes the training data among the evaluation sets of a boosted training, by name or by their samples."""

from __future__ import annotations

from typing import Any

import numpy as np

_NAMES = frozenset({"train", "training", "dtrain", "trn", "learn", "train_set", "training_set", "train_data",
                    "training_data"})
_MOST_ROWS = 1024
"""Number of compared rows, evenly spread; labels are compared completely."""


def is_named_as_training(name: str) -> bool:
    """Return whether the name of an evaluation set refers to the training data.

    Example:
        >>> is_named_as_training("Train"), is_named_as_training("valid_0")
        (True, False)
    """
    return name.strip().casefold().replace("-", "_").replace(" ", "_") in _NAMES


def same_samples(one: Any, other: Any, labels: Any, other_labels: Any) -> bool:
    """Return whether two tables hold the same samples with the same labels, from rows spread over both.

    Args:
        one, other: Arrays, frames or sparse matrices; anything else is the same only if it is one object.
        labels, other_labels: Their labels.

    Example:
        >>> same_samples(np.eye(3), np.eye(3), [0, 1, 1], [0, 1, 1])
        True
        >>> same_samples(np.eye(3), np.eye(3) + 1, [0, 1, 1], [0, 1, 1])
        False
    """
    if one is None or other is None or labels is None or other_labels is None:
        return False
    if not _equal(np.asarray(labels), np.asarray(other_labels)):
        return False
    if one is other:
        return True
    shape = getattr(one, "shape", None)
    if type(one) is not type(other) or not shape or shape != getattr(other, "shape", None):
        return False
    rows = np.unique(np.linspace(0, shape[0] - 1, min(shape[0], _MOST_ROWS)).astype(np.int64))
    return _equal(_rows(one, rows), _rows(other, rows))


def _rows(table: Any, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    found = table.iloc[rows].to_numpy() if hasattr(table, "iloc") else table[rows]
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def _equal(one: Any, other: Any) -> bool:
    # Only floating-point arrays can be compared with NaN taken for equal.
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f"))
