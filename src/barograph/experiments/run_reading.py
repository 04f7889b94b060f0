"""Runs as the catalog reads them: metadata, entries and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from barograph.errors import BarographError, DamagedChunk, NewerFormat, StoreError
from barograph.experiments.checking import SENSELESS, check_entry
from barograph.experiments.marks import mark_of
from barograph.experiments.recorded_entries import METADATA
from barograph.experiments.run_entries import ENDED, run_entries
from barograph.model.finding import Finding
from barograph.model.items import Entry, MetricSummary
from barograph.runs.reading.glance import Glance
from barograph.runs.reading.metrics import metrics_of
from barograph.runs.reading.reader import Run
from barograph.runs.state.journal import JOURNAL_OF_RUN, Batch, Journal
from barograph.runs.state.origins import read_origin
from barograph.store.base import Store

_MOST_FOLLOWED = 64
"""Runs under way of which it is remembered what was read: a machine that asks for more reads those anew."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as it was found.

    Attributes:
        place: Below the root.
        uid: Its identity.
        mark: What tells it from itself at another time; "": it is to be read again in any case.
        stamp: What its folders changed last; "": that is not known, or it goes on.
        entries: Batch and entry, of its metadata files and of its journal.
        metrics: What its records came to.
        findings: Of its watchers.
        damage: What could not be read, one sentence each.
    """

    place: str
    uid: str
    mark: str
    stamp: str
    entries: Sequence[tuple[str, Entry]]
    metrics: dict[str, MetricSummary]
    findings: Sequence[Finding]
    damage: Sequence[str]


class RunReading:
    """Reads runs, and those that go on from where it was. May be asked by several threads."""

    def __init__(self) -> None:
        self._followed: dict[str, Run] = {}

    def read(self, place: str, store: Store, seen: Glance, *, stamp: str, known_mark: str) -> SeenRun | None:
        """Return a run as it is now; None where it is as it was, or says nothing of itself.

        Args:
            place: Below the root.
            store: The run's.
            seen: How it stands.
            stamp: Of its folders, from before it was looked at.
            known_mark: Which it had when it was read last.
        """
        if seen.manifest is None:
            return None
        mark = mark_of(seen)
        if known_mark == mark and seen.state in ENDED:
            return None
        unread: list[str] = []
        origin = _tried(lambda: read_origin(store), None, unread)
        none: dict[str, MetricSummary] = {}
        metrics = _tried(lambda: self._metrics(place, store, goes_on=seen.state not in ENDED), none, unread)
        entries = list(_journal_entries(store, unread))
        damage = list(unread)
        metadata = _sensible(run_entries(seen, seen.manifest, origin), damage)
        # What cannot be read today may be there tomorrow; and who deletes what nobody has must hear of it each time.
        whole = not unread
        return SeenRun(place, seen.manifest.run_id, mark if whole else "",
                       stamp if whole and seen.state in ENDED else "",
                       [*((METADATA, entry) for entry in metadata), *entries], metrics, seen.findings,
                       [f"{problem} ({store.url})" for problem in damage])

    def _metrics(self, place: str, store: Store, *, goes_on: bool) -> dict[str, MetricSummary]:
        """Return the metrics of a run; one that goes on is kept, and read on from where it was."""
        # Taken out meanwhile: two threads may feed one catalog.
        run = self._followed.pop(place, None)
        if run is None:
            run = Run(store)
        else:
            run.refresh()
        metrics = metrics_of(run)
        if goes_on and len(self._followed) < _MOST_FOLLOWED:
            self._followed[place] = run
        return metrics


def read_batch(journal: Journal, name: str, damage: list[str]) -> Batch | None:
    """Return a batch of a journal that can be taken in; None, and why in `damage`, where it cannot."""
    try:
        batch = journal.read(name)
        for entry in batch.entries:
            check_entry(entry)
        return batch
    except (DamagedChunk, NewerFormat, StoreError) as error:
        damage.append(str(error))
    except SENSELESS as error:
        damage.append(f"A batch of the journal is invalid: {error!r} ({name}).")
    return None


def _journal_entries(store: Store, damage: list[str]) -> Iterator[tuple[str, Entry]]:
    journal = Journal(store, JOURNAL_OF_RUN)
    for name in _tried(journal.names, list[str](), damage):
        batch = read_batch(journal, name, damage)
        yield from ((name, entry) for entry in (batch.entries if batch is not None else ()))


def _tried(read: Callable[[], _T], otherwise: _T, damage: list[str]) -> _T:
    """Return what is read; where that fails, note why, so that the rest is still taken in."""
    try:
        return read()
    except BarographError as error:
        damage.append(str(error))
        return otherwise


def _sensible(entries: Iterable[Entry], damage: list[str]) -> list[Entry]:
    found = []
    for entry in entries:
        try:
            check_entry(entry)
        except SENSELESS as error:
            damage.append(f"The metadata of a run is invalid: {error!r}.")
        else:
            found.append(entry)
    return found
