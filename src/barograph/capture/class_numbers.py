"""Detects, from values alone, whether the targets of a regression are class numbers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

_MOST_CLASSES = 100
_LEAST_CLASSES = 3
_LEAST_TIMES = 10
_LEAST_BALANCE = 0.2


class ClassNumbers:
    """Collects the targets of one loss over the steps of a training, and classifies them.

    Class numbers are integers, start at 0 without gaps, and each is frequent, about as frequent as the others. Ages and
    years do not start at 0; counts (of bicycles, of clicks) have rare values; ratings start at 1. Unbalanced classes
    are not detected, to avoid false alarms.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_MOST_CLASSES, np.int64)
        self._other = False
        self._lock = threading.Lock()

    def note(self, targets: NDArray[float64]) -> None:
        """Add the targets of a step."""
        if self._other or not len(targets):
            return
        if not bool(np.all((targets >= 0) & (targets < _MOST_CLASSES) & (targets == np.floor(targets)))):
            self._other = True
            return
        with self._lock:
            self._counts += np.bincount(targets.astype(np.int64), minlength=_MOST_CLASSES)

    @property
    def verdict(self) -> bool | None:
        """Whether they look like class numbers; None: too few targets so far.

        Example:
            >>> numbers = ClassNumbers()
            >>> numbers.note(np.tile(np.arange(4.0), 50))
            >>> numbers.verdict
            True
        """
        if self._other:
            return False
        seen = np.flatnonzero(self._counts)
        if not len(seen) or self._counts.sum() < _LEAST_TIMES * max(len(seen), _LEAST_CLASSES):
            return None
        counts = self._counts[: seen[-1] + 1]
        return len(seen) >= _LEAST_CLASSES and bool(counts.min() >= _LEAST_BALANCE * counts.max())
