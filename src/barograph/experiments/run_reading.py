"""Runs as the catalog reads them: metadata, entries and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from barograph.errors import BarographError, DamagedChunk, NewerFormat, StoreError
from barograph.experiments.checking import SENSELESS, check_entry
from barograph.experiments.marks import mark_of
from barograph.experiments.recorded_entries import METADATA
from barograph.experiments.run_entries import ENDED, run_entries
from barograph.model.finding import Finding
from barograph.model.items import Entry, MetricSummary
from barograph.runs.reading.glance import Glance
from barograph.runs.state.journal import JOURNAL_OF_RUN, Batch, Journal
from barograph.runs.state.origins import read_origin
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.runs.reading.reader import RunReader

_MOST_FOLLOWED = 64
"""Maximum number of active runs with a cached reading position; others are read from the start."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SeenRun:
    """Contents of a run for the catalog.

    Attributes:
        place: Path below the root.
        uid: ID.
        mark: Changes with the run; "": always read it again.
        stamp: Time stamp of its directories; "": unknown, or the run is active.
        entries: Pairs of batch and entry, from its metadata files and its journal.
        metrics: Summaries of its metrics.
        findings: Findings of its rules.
        damage: What cannot be read, one sentence each.
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
    """Reads runs; active ones incrementally. Thread-safe."""

    def __init__(self) -> None:
        self._followed: dict[str, RunReader] = {}

    def read(
        self, place: str, store: Store, seen: Glance, *, stamp: str, known_mark: str,
        before_records: Callable[[], object] = lambda: None,
    ) -> SeenRun | None:
        """Return the current contents of a run; None if it is unchanged, or has no metadata yet.

        Args:
            place: Path below the root.
            store: Store of the run.
            seen: Its current state.
            stamp: Time stamp of its directories, taken before reading.
            known_mark: Its mark when it was last read.
            before_records: Called before its records are read, if it has changed.
        """
        if seen.manifest is None:
            return None
        mark = mark_of(seen)
        if known_mark == mark and seen.state in ENDED:
            return None
        unread: list[str] = []
        before_records()
        origin = _tried(lambda: read_origin(store), None, unread)
        none: dict[str, MetricSummary] = {}
        metrics = _tried(lambda: self._metrics(place, store, goes_on=seen.state not in ENDED), none, unread)
        entries = list(_journal_entries(store, unread))
        damage = list(unread)
        metadata = _sensible(run_entries(seen, seen.manifest, origin), damage)
        # Damage may be temporary, and a garbage collection must know of it, so no mark is stored.
        whole = not unread
        return SeenRun(place, seen.manifest.run_id, mark if whole else "",
                       stamp if whole and seen.state in ENDED else "",
                       [*((METADATA, entry) for entry in metadata), *entries], metrics, seen.findings,
                       damage)

    def _metrics(self, place: str, store: Store, *, goes_on: bool) -> dict[str, MetricSummary]:
        """Return the metrics of a run; an active run is cached and read incrementally."""
        # Here, because these import Arrow, which a catalog without new runs does not need.
        from barograph.runs.reading.metrics import metrics_of
        from barograph.runs.reading.reader import RunReader

        # Removed meanwhile: two threads may feed one catalog.
        run = self._followed.pop(place, None)
        if run is None:
            run = RunReader(store)
        else:
            run.refresh()
        metrics = metrics_of(run)
        if goes_on and len(self._followed) < _MOST_FOLLOWED:
            self._followed[place] = run
        return metrics


def read_batch(journal: Journal, name: str, damage: list[str]) -> Batch | None:
    """Return a valid batch of a journal, or None with a reason in `damage`."""
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
    """Return what `read` returns; if it fails, note why, so that the rest is still indexed."""
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
