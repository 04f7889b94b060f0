"""Whether the loss exploded once: a model that learns nothing afterwards may have been destroyed by it."""

from __future__ import annotations

import math
from typing import NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory
from barograph.rules.baseline import CLASS_LOSSES, plain_loss
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.odd_batches import follow_batches, odd_batch_behind
from barograph.rules.words import lower_rate, number, sentence
from barograph.runs.reading.view import StepView

LOSSES = Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.TRAIN})))
"""Selection for rules that call `note_explosion`."""

_FACTOR, _UNKNOWN_FACTOR = 10.0, 1000.0
"""Multiples of its start that a loss over classes, and any other loss, must exceed."""
_RECOVERED_STEPS = 20
"""A model that is healthy so many steps after an explosion has survived it."""
_WEIGHT = 0.75
"""More than that of a collapse, or of labels unrelated to inputs: both come after it."""
_LEAST_START = 1.0
"""The first small batch may be easy."""


class _Peak(NamedTuple):
    """The highest loss of a training.

    Attributes:
        start: The first loss.
        limit: Loss above which it has exploded.
        highest: The highest one.
        step: Its step.
        rate: Learning rate there; None if not recorded.
    """

    start: float
    limit: float
    highest: float
    step: int
    rate: float | None


def note_explosion(view: StepView, memory: Memory) -> None:
    """Remember the first loss of a training and its highest."""
    found = stated_loss(view)
    if found is None or view.step.mode is not Mode.TRAIN or view.step.has_rivals or not math.isfinite(found[1]):
        return
    own, loss = memory.setdefault("explosion", {}), found[1]
    follow_batches(view, own)
    if "peak" not in own:
        plain = plain_loss(view)
        factor = _FACTOR if plain is not None and plain[0].path in CLASS_LOSSES else _UNKNOWN_FACTOR
        own["peak"] = list(_Peak(loss, factor * max(abs(loss), _LEAST_START), loss, view.step.number, None))
    elif loss > own["peak"][2]:
        own["peak"][2:] = [loss, view.step.number, learning_rate(view)]


def suspect_explosion(memory: Memory, *, was_well: int = -1) -> Suspicion | None:
    """Return why the loss exploded, if it did: an odd batch, or a learning rate that is too high.

    Args:
        memory: Memory of the rule.
        was_well: Last step at which the model was healthy; -1 if unknown.

    Example:
        >>> suspect_explosion({"explosion": {"peak": [2.3, 23.0, 1e5, 13, 0.8]}}).why
        'the loss rose from 2.3 to 100,000 at step 13'
    """
    own = memory.get("explosion", {})
    if "peak" not in own:
        return None
    peak = _Peak(*own["peak"])
    if peak.highest <= peak.limit or was_well > peak.step + _RECOVERED_STEPS:
        return None
    return odd_batch_behind(own, peak.step) or Suspicion(
        Cause.LEARNING_RATE_TOO_HIGH, _WEIGHT,
        f"the loss rose from {number(peak.start)} to {number(peak.highest)} at step {peak.step}",
        f"{sentence(lower_rate(peak.rate, 10))}.")
