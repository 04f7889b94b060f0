"""Rows of an earlier attempt that are not superseded by a later one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from barograph.model.step import Mode
from barograph.runs.format.events import DictionaryColumn


class Supersession:
    """A later attempt supersedes an earlier one, optimizer by optimizer, from its own first training step on.

    An evaluation has the number of steps before it, so an earlier one at a later attempt's first step still
    counts. Evaluations and logged numbers alone supersede nothing. They have optimizer "" and
    count the steps of the busiest one, so if a later attempt trained none of that name, they are superseded from its
    largest first step on.

    Args:
        starts: Attempt and optimizer to the first training step.
        uncertain: Attempts with unknown first steps, which may have repeated any step.

    Example:
        >>> rule = Supersession({(0, ""): 0, (1, ""): 100})
        >>> optimizers = DictionaryColumn(np.array([0, 0]), [""])
        >>> modes = DictionaryColumn(np.array([0, 1]), ["train", "eval"])
        >>> rule.counts(0, optimizers, modes, np.array([100, 100])).tolist()
        [False, True]
    """

    def __init__(self, starts: Mapping[tuple[int, str], int], uncertain: Collection[int] = ()) -> None:
        self._starts = starts
        self._uncertain = uncertain

    def limit(self, attempt: int, optimizer: str) -> int | None:
        """Return the first step of an optimizer that a later attempt repeated; None if none did."""
        later = {other for other in (*self._uncertain, *(begun for begun, _ in self._starts)) if other > attempt}
        limits = (self._start(other, optimizer) for other in later)
        return min((limit for limit in limits if limit is not None), default=None)

    def counts(
        self, attempt: int, optimizers: DictionaryColumn, modes: DictionaryColumn, steps: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return for each row of an attempt whether it still counts.

        Args:
            attempt: Attempt of all rows.
            optimizers, modes, steps: Values of each row.
        """
        counting = np.ones(len(steps), bool)
        trains = np.array([text == Mode.TRAIN.value for text in modes.texts], bool)[modes.codes]
        for code, optimizer in enumerate(optimizers.texts):
            limit = self.limit(attempt, optimizer)
            if limit is not None:
                counting &= (optimizers.codes != code) | (steps < limit) | ((steps == limit) & ~trains)
        return counting

    def _start(self, attempt: int, optimizer: str) -> int | None:
        if attempt in self._uncertain:
            return 0
        own = self._starts.get((attempt, optimizer))
        if own is not None or optimizer:
            return own
        return max((step for (other, _), step in self._starts.items() if other == attempt), default=None)
