"""Advice to rules that lack tensors, by the preset of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from barograph.capture.presets import PRESETS
from barograph.judging.feeding import PRESET
from barograph.model.finding import NotEvaluated, Unmet

RECORD_WITH_THE_RULE = "Record with this rule: a preset records what the rules of the run need (--rules)."
FEW_STEPS = "No step with tensors was recorded. Train longer, or raise the budget."


def advised(
    items: Iterable[NotEvaluated], settings: Mapping[str, Any], *, tensors: bool
) -> tuple[NotEvaluated, ...]:
    """Return the rules with advice to choose a preset only where another preset would record more.

    Args:
        items: Rules that were not evaluated.
        settings: Settings of the run; empty if it was not recorded by Barograph.
        tensors: Whether a step with tensors was recorded.
    """
    preset = PRESETS.get(settings.get("preset", ""))
    if preset is None or not preset.rules:
        return tuple(items)
    chosen = frozenset(settings.get("rules", ()))
    return tuple(_advised(item, chosen, tensors) if item.feed == PRESET else item for item in items)


def _advised(item: NotEvaluated, chosen: frozenset[str], tensors: bool) -> NotEvaluated:
    if chosen.isdisjoint(("all", item.code, item.rule)):
        return replace(item, feed=RECORD_WITH_THE_RULE)
    if not tensors:
        return replace(item, status=Unmet.NOT_ENOUGH_DATA, feed=FEW_STEPS)
    # The run has no such tensors; there is nothing to change.
    return replace(item, status=Unmet.NOT_APPLICABLE, feed="")
