"""What the user asked to have recorded, and was not met by anything: a pattern with a slip in it, mostly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.runs.view import StepView
from barograph.watch.needs import Need

_ALWAYS = 32
"""So many steps are looked at each; from then on ever fewer, since what has met nothing by then will meet nothing."""


class Expectations:
    """Which of the user's collections have met nothing so far.

    Args:
        selections: The collections.
    """

    def __init__(self, selections: Iterable[Selection]) -> None:
        # Only what they name counts here, not in how much detail it is to be recorded.
        self._unmet = [Need(replace(item, units=False, raw=False)) for item in selections]
        self._kinds_seen: set[Kind] = set()
        self._looks = 0

    def take(self, view: StepView) -> None:
        """Look whether the step recorded anything that they name."""
        if not self._unmet:
            return
        kinds = frozenset().union(*(item.selection.kinds for item in self._unmet)) & view.kinds
        self._kinds_seen |= kinds
        if not kinds:
            return
        self._looks += 1
        if self._looks <= _ALWAYS or self._looks & (self._looks - 1) == 0:
            self._unmet = [item for item in self._unmet if not item.meets(view)]

    def unmet(self) -> tuple[str, ...]:
        """Return one sentence for each collection that has met nothing though there was something of its kinds."""
        unmet = [item.selection for item in self._unmet]
        return tuple(_sentence(item) for item in unmet if item.kinds & self._kinds_seen)


def _sentence(item: Selection) -> str:
    asks = [f"{word} {', '.join(values)}" for word, values in (
        ("include", item.include), ("exclude", item.exclude), ("layers", sorted(item.layers))) if values]
    return (f'The collection "{item.name}" matches nothing that was recorded: no {" or ".join(sorted(item.kinds))} '
            f"with {'; '.join(asks) or 'its schedule'}. `barograph keys` lists the paths there are.")
