"""Checks whether required data was recorded."""

from __future__ import annotations

import itertools

from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.selection import Selection
from barograph.rules.once import once
from barograph.runs.reading.view import StepView


class Need:
    """One required selection, and whether a step recorded it.

    The matching subjects are cached, because nearly all steps record the same ones.

    Attributes:
        selection: The selection.
        met: Whether a step recorded any of it.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.met = False
        self._rows_meant = once(self._rows_of)
        self._is_meant: dict[Kind, dict[str, bool]] = {kind: {} for kind in selection.kinds}

    def look(self, view: StepView) -> None:
        """Check a step."""
        if not self.met:
            self.met = self.meets(view)

    def meets(self, view: StepView) -> bool:
        """Return whether the step recorded anything that the selection matches, in the requested detail."""
        if view.step.mode not in self.selection.schedule.modes or self.selection.kinds.isdisjoint(view.kinds):
            return False
        merged = view.merged()
        rows = self._rows_meant(merged.table.subjects)
        if self.selection.units:
            return bool(rows) and not rows.isdisjoint(merged.units)
        return bool(rows) or any(self._means(key) for kind in self.selection.kinds for key, _ in view.numbers(kind))

    def _rows_of(self, subjects: tuple[Subject, ...]) -> frozenset[int]:
        """Return the matching rows; if units do not matter, one row stands for all."""
        rows = (row for row, subject in enumerate(subjects) if self.selection.matches(subject.key, subject.layer))
        return frozenset(rows if self.selection.units else itertools.islice(rows, 1))

    def _means(self, key: Key) -> bool:
        names = self._is_meant[key.kind]
        known = names.get(key.path)
        if known is None:
            known = names[key.path] = self.selection.matches(key)
        return known
