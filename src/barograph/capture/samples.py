"""A bounded memory of training samples' digests, to recognize them in an evaluation."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

MOST_SAMPLES = 65_536


class SampleMemory:
    """Stores the digests of training samples, up to a limit.

    Asked from the thread that trains and, where samples lie on a device, from the writer's.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, digests: NDArray[int64]) -> float:
        """Remember the samples of a training step.

        Args:
            digests: Of its samples.

        Returns:
            The share of them that were known before; 0.0 where there are none.
        """
        with self._lock:
            before = self._count(digests.tolist())
            if len(self._known) < MOST_SAMPLES:
                self._known.update(digests[: MOST_SAMPLES - len(self._known)].tolist())
        return before / len(digests) if len(digests) else 0.0

    def forget(self) -> None:
        """Begin anew: another model is trained, which has not met these samples."""
        with self._lock:
            self._known.clear()

    def share_known(self, digests: NDArray[int64], *, rich: bool = False) -> float:
        """Return the share of an evaluation's samples that training was fed, beyond what chance explains.

        Where samples repeat within the evaluation itself, as rows of few small numbers do, some are equal to
        training samples without being them: those that occur more than once are not counted, and as many more
        are taken off as the repetition lets expect. Not where samples hold so much that none equals another by
        chance: there what repeats was drawn twice.

        Args:
            digests: Of its samples.
            rich: Samples are not equal by chance.

        Returns:
            From 0.0 to 1.0; 0.0 where there are none.
        """
        if not len(digests):
            return 0.0
        if rich:
            with self._lock:
                return self._count(digests.tolist()) / len(digests)
        values, times = np.unique(digests, return_counts=True)
        once = values[times == 1]
        with self._lock:
            known = self._count(once.tolist())
            memory = len(self._known)
        pairs = len(digests) * (len(digests) - 1) / 2
        equal_pairs = float((times * (times - 1)).sum()) / 2
        by_chance = min(1.0, memory * equal_pairs / pairs) if equal_pairs else 0.0
        return max(0.0, known / len(digests) - by_chance)

    def _count(self, digests: list[int]) -> int:
        known = self._known
        return sum(1 for digest in digests if digest in known)
