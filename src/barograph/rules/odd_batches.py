"""Batches that reach far beyond all before them, and how long that is remembered: a sample out of range at work."""

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
"""Batches that must have been seen before one is held to be odd beside them, where nothing else speaks for it."""
_SOON_STEPS = 20
"""Within so many steps what an odd batch did to the weights is seen, or it did nothing."""


class OddBatch(NamedTuple):
    """What is odd about a batch.

    Attributes:
        step: In which it was fed.
        broken: Values in it that are not finite; 0: it is odd for its reach.
        reach: The largest finite magnitude in it.
        before: That of all batches before it.
        known: How many batches were recorded before it.
    """

    step: int
    broken: int
    reach: float
    before: float
    known: int


def follow_batches(view: StepView, memory: Memory) -> OddBatch | None:
    """Take in how far the values of this step's batch reach; return what is odd about it, None where nothing is.

    The last odd one is remembered, for `odd_batch_behind`.
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
    """Return what a batch that reached too far may have done by a step; None where there was none shortly before.

    Args:
        memory: Of a rule that calls `follow_batches` with each step.
        step: In which something is seen to have gone wrong.
    """
    if "odd_batch" not in memory:
        return None
    odd = OddBatch(*memory["odd_batch"])
    if odd.broken or odd.known < _LEAST_BATCHES or not 0 <= step - odd.step <= _SOON_STEPS:
        return None
    return Suspicion(Cause.BAD_SAMPLE, 0.85, f"the batch of step {odd.step} reaches {number(odd.reach)}, "
                     f"{number(odd.reach / odd.before)} times the largest value of the {odd.known} batches before",
                     f"Find the sample in the batch of step {odd.step}, and take it out or bring it into range; clip "
                     "gradients.")
