"""Requested records that matched nothing, usually because of a typo in a pattern."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from barograph.judging.needs import Need
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode
from barograph.runs.reading.view import StepView

_ALWAYS = 32
"""Number of steps that are all checked; later steps are checked less and less often, since matches are unlikely by
then."""


class Expectations:
    """Tracks which of the user's collections have matched nothing so far.

    Args:
        selections: The collections.
    """

    def __init__(self, selections: Iterable[Selection]) -> None:
        # Only the patterns count here, not the level of detail.
        self._unmet = [Need(replace(item, units=False, raw=False)) for item in selections]
        self._kinds_seen: set[Kind] = set()
        self._looks = 0
        self._due = [0] * len(self._unmet)

    def take(self, view: StepView) -> None:
        """Check whether the step recorded anything that the collections match."""
        if not self._unmet:
            return
        if view.kinds & _OF_THE_MODEL:
            # If the budget allowed any tensor of a step, it allowed all that were due.
            for place, item in enumerate(self._unmet):
                self._due[place] += item.selection.schedule.includes(view.step.number, view.step.mode)
        kinds = frozenset().union(*(item.selection.kinds for item in self._unmet)) & view.kinds
        self._kinds_seen |= kinds
        if not kinds:
            return
        self._looks += 1
        if self._looks <= _ALWAYS or self._looks & (self._looks - 1) == 0:
            met = [item.meets(view) for item in self._unmet]
            self._due = [due for due, was_met in zip(self._due, met, strict=True) if not was_met]
            self._unmet = [item for item, was_met in zip(self._unmet, met, strict=True) if not was_met]

    def unmet(self) -> tuple[str, ...]:
        """Return one sentence for each collection that matched nothing in enough steps."""
        return tuple(_sentence(item.selection, kind_seen=bool(item.selection.kinds & self._kinds_seen))
                     for item, due in zip(self._unmet, self._due, strict=True)
                     if due >= _ENOUGH or item.selection.kinds & self._kinds_seen)


_ENOUGH = 3
"""Number of due and recorded steps after which a missing match counts."""

_OF_THE_MODEL = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.OUTPUT})


def _sentence(item: Selection, *, kind_seen: bool) -> str:
    asks = [f"{word} {', '.join(values)}" for word, values in (
        ("include", item.include), ("exclude", item.exclude), ("layers", sorted(item.layers)),
        ("modes", () if item.schedule.modes == frozenset(Mode) else sorted(item.schedule.modes))) if values]
    kinds = " or ".join(sorted(item.kinds))
    if not kind_seen and not asks:
        return f'The collection "{item.name}" recorded nothing: this training has no {kinds}.'
    return (f'The collection "{item.name}" matches nothing that was recorded: no {kinds} '
            f"with {'; '.join(asks) or 'its schedule'}. `barograph keys` lists the paths there are.")
