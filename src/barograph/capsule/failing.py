"""The failure of a saved step, for testing parts of its batch for the same failure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from barograph.capsule.guilty import Guilty, filled, guilty_among
from barograph.capsule.order import ReplayResult
from barograph.model.capsule import CapsuleHead, Held

OfRows = Callable[[tuple[int, ...]], ReplayResult]
"""Runs a step with only some rows of its batch, in the same process."""


@dataclass(frozen=True, slots=True)
class Failing:
    """The way a step fails.

    Attributes:
        held: Why the step was saved.
        bound: Bound that its norm or loss exceeded; None: it was non-finite.
    """

    held: Held
    bound: float | None = None

    def __call__(self, result: ReplayResult) -> bool:
        """Return whether a replayed step fails."""
        if self.held is Held.OWN:
            return result.own is not None and result.own.holds
        if self.bound is not None and self.held is Held.NORM:
            return not _norm(result) <= self.bound
        if self.bound is not None and self.held is Held.LOSS:
            return not sum(now for _, now in result.losses) <= self.bound
        return not result.finite


def _norm(result: ReplayResult) -> float:
    """Return the norm of all gradients before clipping; if that was not measured, as they are."""
    return result.norm if result.norm is not None else math.hypot(*(item.norm_now for item in result.gradients))


def failing_by(head: CapsuleHead, result: ReplayResult, *, asked: bool = False) -> Failing:
    """Return the way a saved step fails, as its replay shows it.

    Args:
        head: Head of its capsule.
        result: Result of the replay.
        asked: The user's function was called for it.
    """
    wanted = Failing(Held.OWN) if asked else Failing(head.held, head.numbers.get("bound"))
    return wanted if wanted(result) else Failing(Held.NOT_FINITE)


def guilty_here(samples: int, make: OfRows, fails: Callable[[ReplayResult], bool], suspects: Sequence[int]) -> Guilty:
    """Return the samples that make a step fail on their own, by replaying it in this process.

    Args:
        samples: Number of samples in the batch.
        make: See `OfRows`; called with batches of the full size.
        fails: Whether such a step fails.
        suspects: Samples to try first.
    """
    failures: list[str] = []

    def fails_of(rows: tuple[int, ...]) -> bool:
        again = make(filled(rows, samples))
        if again.own is not None and again.own.failure:
            failures.append(again.own.failure)
            return False
        return fails(again)

    found = guilty_among(samples, fails_of, suspects=suspects)
    return replace(found, failure=failures[-1]) if failures and len(failures) == found.tries else found
