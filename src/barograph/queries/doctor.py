"""The verdict of `barograph doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barograph.runs.reading.doctor import Diagnosis, examine
from barograph.store.base import Store

HARMS = ("damaged", "missing", "dropped")
"""Entries of a diagnosis that mean that something was lost."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """A run whose files were all read.

    Attributes:
        diagnosis: What is damaged, missing, dropped, and so on.
    """

    diagnosis: Diagnosis

    @property
    def intact(self) -> bool:
        """Whether everything that was recorded can be read."""
        return self.diagnosis.intact

    @property
    def verdict(self) -> tuple[str, str]:
        """The verdict in a word or two, and the rest of the sentence."""
        found = self.diagnosis
        if found.intact and not found.workers:
            return "intact", ", and empty: no process has recorded anything yet."
        if found.intact:
            going_on = any("is running" in sentence for sentence in found.unended)
            return "intact", (" so far: the run is still running." if going_on else
                             ": every recorded file is present and readable.")
        counts = [f"{len(getattr(found, name))} {name}" for name in HARMS if getattr(found, name)]
        return "not intact", f": {', '.join(counts)}."

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        return self.diagnosis.to_json()


def checkup_of(store: Store) -> Checkup:
    """Return what is wrong with a run, after reading all of it.

    Raises:
        NotARun: There is no run.
        NewerFormat, StoreError: It cannot be read.
    """
    return Checkup(examine(store))
