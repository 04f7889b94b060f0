"""Decides which statistics of each key to record at each step: the union of all Selections, cached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from barograph.model.key import Key, Kind
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode


@dataclass(frozen=True, slots=True)
class Taking:
    """The statistics to record for one tensor.

    Attributes:
        histogram: Detail of the exponent histogram.
        units: Per-unit summaries too.
        raw: The whole tensor too.
    """

    histogram: Histogram = Histogram.NONE
    units: bool = False
    raw: bool = False


class Plan:
    """The union of Selections.

    A bit mask says which Selections are active in a step. The statistics for a mask and a key are looked up once and
    then cached.

    Attributes:
        selections: The Selections; bit n of a mask is the n-th.
        facts: Mask of those that request facts only.
    """

    def __init__(self, selections: Iterable[Selection]) -> None:
        self.selections: tuple[Selection, ...] = ()
        self.add(selections)

    def add(self, selections: Iterable[Selection]) -> None:
        """Add Selections; existing masks keep their meaning."""
        self.selections = (*self.selections, *selections)
        # Many Selections share few schedules, and this runs at every step.
        masks: dict[Schedule, int] = {}
        for index, selection in enumerate(self.selections):
            masks[selection.schedule] = masks.get(selection.schedule, 0) | 1 << index
        self._schedules = {mode: tuple((schedule, mask) for schedule, mask in masks.items() if mode in schedule.modes)
                           for mode in Mode}
        self._takings: dict[tuple[int, Key, str], Taking | None] = {}
        # Nearly every one of the first steps has a new mask, which must not invalidate all keys.
        self._matching: dict[tuple[Key, str], list[tuple[int, Selection]]] = {}
        self._by_kind: dict[Kind, list[tuple[int, Selection]]] = {}
        for index, selection in enumerate(self.selections):
            for kind in selection.kinds:
                self._by_kind.setdefault(kind, []).append((1 << index, selection))
        self._kinds: dict[int, frozenset[Kind]] = {}
        self._alike: dict[tuple[int, Kind], int] = {}
        self._everything = {mode: self._all_of(mode) for mode in Mode}
        self.facts = sum(bit for bit, item in self._by_kind.get(Kind.FACT, ()) if len(item.kinds) == 1)

    def scheduled(self, step: int, mode: Mode = Mode.TRAIN, *, since: int | None = None, owed: int = 0) -> int:
        """Return the mask of the Selections whose schedule includes this step, or any from `since` to it.

        Args:
            step, mode: The step.
            since: First step; None: only `step`.
            owed: Mask that is due regardless of schedules, and included in the result.
        """
        found = owed
        for schedule, mask in self._schedules[mode]:
            if mask & ~found and (
                    schedule.includes(step, mode) if since is None else schedule.includes_any(since, step, mode)):
                found |= mask
        return found

    def everything(self, mode: Mode = Mode.TRAIN) -> int:
        """Return the mask of the Selections that apply in this mode at any step."""
        return self._everything[mode]

    def asks(self, kind: Kind) -> bool:
        """Return whether any Selection requests this kind at any step."""
        return kind in self._by_kind

    def kinds(self, mask: int) -> frozenset[Kind]:
        """Return the kinds that the masked Selections request."""
        if mask not in self._kinds:
            self._kinds[mask] = frozenset(kind for item in self._masked(mask) for kind in item.kinds)
        return self._kinds[mask]

    def taking(self, mask: int, key: Key, layer: str = "") -> Taking | None:
        """Return what the masked Selections record of a key; None: nothing."""
        mask = self.of_kind(mask, key.kind)
        question = (mask, key, layer)
        try:
            # One lookup: hashing a key takes longer than everything else here.
            return self._takings[question]
        except KeyError:
            asked = [item for bit, item in self._matches(key, layer) if mask & bit]
            taking = None
            if asked:
                taking = Taking(
                    histogram=max(item.histogram for item in asked),
                    units=any(item.units for item in asked),
                    raw=any(item.raw for item in asked),
                )
            self._takings[question] = taking
            return taking

    def of_kind(self, mask: int, kind: Kind) -> int:
        """Return a canonical mask that records the same of one kind.

        Each rule has its own schedule, so nearly every step has another mask, which would defeat caching.
        """
        found = self._alike.get((mask, kind))
        if found is None:
            found = self._alike[mask, kind] = self._mask_alike(mask, kind)
        return found

    def _mask_alike(self, mask: int, kind: Kind) -> int:
        first: dict[Selection, int] = {}
        asked: dict[int, Selection] = {}
        for bit, item in self._by_kind.get(kind, ()):
            # The first of otherwise equal ones represents all.
            whatever = replace(item, name="", schedule=_ANY)
            first.setdefault(whatever, bit)
            if mask & bit:
                asked[first[whatever]] = whatever
        return sum(bit for bit, item in asked.items() if not any(
            _takes_all(other, item) and (earlier < bit or not _takes_all(item, other))
            for earlier, other in asked.items() if earlier != bit))

    def _matches(self, key: Key, layer: str) -> list[tuple[int, Selection]]:
        known = self._matching.get((key, layer))
        if known is None:
            known = [(bit, item) for bit, item in self._by_kind.get(key.kind, ()) if item.matches(key, layer)]
            self._matching[key, layer] = known
        return known

    def _all_of(self, mode: Mode) -> int:
        return sum(1 << index for index, item in enumerate(self.selections) if mode in item.schedule.modes)

    def _masked(self, mask: int) -> list[Selection]:
        return [item for index, item in enumerate(self.selections) if mask >> index & 1]


class Agenda:
    """The Selections that are due, if the budget skips steps.

    A due Selection that the budget did not allow stays due until it is recorded, so its interval grows instead of
    missing steps.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._owed: dict[tuple[str, Mode], int] = {}
        self._asked: dict[tuple[str, Mode], int] = {}

    def due(self, step: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> int:
        """Return the mask of the Selections due in this step, or in one since the last call.

        The first step is the start of a training, which may continue from a checkpoint; the first evaluation covers all
        steps before it.
        """
        series = (optimizer, mode)
        since = min(step, self._asked.get(series, step - 1 if mode is Mode.TRAIN else -1) + 1)
        self._asked[series] = step
        owed = self._owed[series] = self._plan.scheduled(step, mode, since=since, owed=self._owed.get(series, 0))
        return owed

    def owe(self, mask: int, optimizer: str = "") -> None:
        """Make the masked Selections due in the next training step, regardless of their schedule."""
        series = (optimizer, Mode.TRAIN)
        self._owed[series] = self._owed.get(series, 0) | mask

    def took(self, mask: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> None:
        """Note that the masked Selections were taken."""
        series = (optimizer, mode)
        self._owed[series] = self._owed.get(series, 0) & ~mask


_ANY = Schedule()


def _takes_all(one: Selection, other: Selection) -> bool:
    """Return whether a selection records at least what another records of a kind."""
    is_wide = not (one.include or one.exclude or one.layers)
    return is_wide and one.histogram >= other.histogram and one.units >= other.units and one.raw >= other.raw
