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

    Used by the training thread and, for samples on a device, by the writer's.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, digests: NDArray[int64]) -> float:
        """Add the samples of a training step.

        Args:
            digests: Digests of its samples.

        Returns:
            The share of known samples; 0.0 if there are none.
        """
        with self._lock:
            before = self._count(digests.tolist())
            if len(self._known) < MOST_SAMPLES:
                self._known.update(digests[: MOST_SAMPLES - len(self._known)].tolist())
        return before / len(digests) if len(digests) else 0.0

    def forget(self) -> None:
        """Reset, for another model, which has not been trained on these samples."""
        with self._lock:
            self._known.clear()

    def share_known(self, digests: NDArray[int64], *, rich: bool = False) -> float:
        """Return the share of an evaluation's samples that are training samples, beyond chance.

        If samples repeat within the evaluation, as rows of a few small numbers do, some equal training samples by
        chance. So samples that occur more than once are not counted, and the expected number of chance matches is
        subtracted. Not
        for samples with so much content that none equals another by chance: repeated ones were drawn twice.

        Args:
            digests: Digests of its samples.
            rich: Samples are never equal by chance.

        Returns:
            From 0.0 to 1.0; 0.0 if there are none.
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

    def repetition(self, digests: NDArray[int64]) -> float:
        """Return how often an evaluation contains each training sample in it, on average; 0.0 without any."""
        with self._lock:
            known = [digest for digest in digests.tolist() if digest in self._known]
        return len(known) / len(set(known)) if known else 0.0

    def _count(self, digests: list[int]) -> int:
        known = self._known
        return sum(1 for digest in digests if digest in known)
