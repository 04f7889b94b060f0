"""Detection of batches whose values far exceed all previous batches, as with a sample out of range."""

from __future__ import annotations

from typing import NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.key import Kind
from barograph.rules.base import Memory
from barograph.rules.clues import batch_reach
from barograph.rules.columns import table_of
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_FAR = 10.0
_LEAST_BATCHES = 5
"""Batches needed before one can count as odd by comparison alone."""
_SOON_STEPS = 20
"""An odd batch affects the weights within this many steps, or not at all."""


class OddBatch(NamedTuple):
    """A batch with unusual values.

    Attributes:
        step: Step of the batch.
        broken: Number of non-finite values; 0 if it is odd for its magnitude.
        reach: Largest finite magnitude.
        before: Largest finite magnitude of all previous batches.
        known: How many batches were recorded before it.
    """

    step: int
    broken: int
    reach: float
    before: float
    known: int


def follow_batches(view: StepView, memory: Memory) -> OddBatch | None:
    """Record the largest magnitude of this step's batch; return the batch if it is odd, else None.

    Remembers the last odd batch, for `odd_batch_behind`.
    """
    if Kind.BATCH not in view.kinds:
        return None
    table = table_of(view, Kind.BATCH)
    reach, broken = batch_reach(view), int((table.column("nan") + table.infinite).sum())
    before, known = float(memory.get("reach", 0.0)), int(memory.get("batches", 0))
    memory["reach"], memory["batches"] = max(before, reach), known + 1
    if not (broken or (before and reach > _FAR * before)):
        return None
    odd = OddBatch(view.step.number, broken, reach, before, known)
    memory["odd_batch"] = list(odd)
    return odd


def odd_batch_behind(memory: Memory, step: int) -> Suspicion | None:
    """Return the suspicion that a recent odd batch caused a problem; None if there was none.

    Args:
        memory: Memory of a rule that calls `follow_batches` in each step.
        step: Step of the problem.
    """
    if "odd_batch" not in memory:
        return None
    odd = OddBatch(*memory["odd_batch"])
    if odd.broken or odd.known < _LEAST_BATCHES or not 0 <= step - odd.step <= _SOON_STEPS:
        return None
    return Suspicion(Cause.BAD_SAMPLE, 0.85, f"the batch of step {odd.step} has values up to {number(odd.reach)}, "
                     f"{number(odd.reach / odd.before)} times the largest of the previous {odd.known} batches",
                     f"Find the sample in the batch of step {odd.step} and remove or rescale it; clip "
                     "gradients.")
