"""Incremental indexing: reads new batches of the journal and changed runs into the catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from barograph.experiments.database import Database
from barograph.experiments.folding import folded
from barograph.experiments.item import items_by_id
from barograph.experiments.marks import CHANGING, ended_long_ago, has_ended, mark_in
from barograph.experiments.recorded_entries import entries_by_item, store_entries
from barograph.experiments.run_entries import ENDED, GONE
from barograph.experiments.run_reading import RunReading, SeenRun, read_batch
from barograph.experiments.schema import BATCHES, ENTRIES, FED, FINDINGS, ITEMS, OF_ROOT, RECORDED
from barograph.experiments.writing import ItemWriter, in_parts, storable
from barograph.machine.filesystem import network_filesystem
from barograph.model.clock import Clock
from barograph.model.items import Entry, ItemKind, MetricSummary, Verb
from barograph.runs.reading.glance import Glance, glances, runs_below
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Batch, Journal
from barograph.store.base import Stamped, Store
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

_THREADS = 8
_AT_ONCE = 500
_RUNS_AT_ONCE = 100
"""More take the same time, and a list shows its first runs later."""
_ENTRIES_AT_ONCE = 20_000
_FOLDED_AT_ONCE = 10_000
_STAMP = "/stamp"
"""Pseudo-journal whose batch is the stamp of the root's journal when all of it was indexed."""


@dataclass(slots=True)
class Fed:
    """Result of indexing.

    Attributes:
        batches: Number of new batches in the root's journal.
        runs: Number of new or changed runs.
        gone: Runs whose directories no longer exist.
        of_root: What cannot be read of the root's journal, one sentence each; the rest is indexed.
        of_runs: What cannot be read of runs, by the URL of the run.
        denied: Folders that this user may not read.
    """

    batches: int = 0
    runs: int = 0
    gone: int = 0
    of_root: list[str] = field(default_factory=list)
    of_runs: dict[str, list[str]] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)

    @property
    def damage(self) -> list[str]:
        """Everything that cannot be read, one sentence each."""
        return [*self.of_root,
                *(f"{problem.removesuffix(f' ({url})')} ({url})" for url, problems in self.of_runs.items()
                  for problem in problems),
                *(f"{url}: permission denied" for url in self.denied)]


class Feeder:
    """Indexes the contents of a root.

    Args:
        database: Database of the catalog.
        store: The root.
        clock: Determines how long ago a run ended.
    """

    def __init__(self, database: Database, store: Store, clock: Clock) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._reading = RunReading()

    def feed(
        self, *, thorough: bool = False, again: Collection[str] = (),
        progress: Callable[[int, int], object] = lambda done, total: None,
        give_way: Callable[[], object] = lambda: None, before_records: Callable[[], object] = lambda: None,
    ) -> Fed:
        """Index what is new.

        Args:
            thorough: Check every run, even those that ended long ago.
            again: Places of runs, below the root, to read even if they seem unchanged.
            progress: Called with the number of batches read and their total, then with the same numbers for runs.
            give_way: Called before each run is checked or read, from several threads; may wait for what is more urgent.
            before_records: Called before the records of each new or changed run are read, from several threads.

        Raises:
            CatalogUnavailable: The catalog cannot be written.
            StoreError: The root cannot be read.
        """
        fed = Fed()
        self._feed_journal(fed, thorough, progress)
        self._feed_runs(fed, thorough, again, progress, give_way, before_records)
        return fed

    def look_again(self, uids: Collection[str]) -> None:
        """Make the next `feed` read these runs, even if they seem unchanged."""
        with self._database.writing() as connection:
            for some in in_parts(uids, _AT_ONCE):
                connection.execute(delete(FED).where(FED.c.uid.in_(some)))

    def feed_batch(self, batch: Batch) -> None:
        """Index a batch of the root's journal that was just written.

        Raises:
            CatalogUnavailable: The catalog cannot be written.
        """
        self._take_in([batch])

    def _feed_journal(self, fed: Fed, thorough: bool, progress: Callable[[int, int], object]) -> None:
        journal = Journal(self._store, JOURNAL_OF_ROOT)
        stamp = self._stamp([JOURNAL_OF_ROOT])
        of_stamp = select(BATCHES.c.name).where(BATCHES.c.place == _STAMP)
        with self._database.reading() as connection:
            before = connection.execute(of_stamp).scalars().first()
            if stamp and stamp == before and not thorough:
                return
            known = set(connection.execute(select(BATCHES.c.name).where(BATCHES.c.place == OF_ROOT)).scalars())
        new = [name for name in journal.names() if name not in known]
        waiting: list[Batch] = []
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, names in enumerate(in_parts(new, _THREADS)):
                progress(number * _THREADS, len(new))
                waiting += [item for item in pool.map(lambda name: read_batch(journal, name, fed.of_root), names)
                            if item is not None]
                # A batch has one entry or thousands, so memory is limited by entries, not batches.
                if sum(len(batch.entries) for batch in waiting) >= _ENTRIES_AT_ONCE:
                    self._take_in(waiting)
                    fed.batches += len(waiting)
                    waiting = []
        self._take_in(waiting)
        fed.batches += len(waiting)
        progress(len(new), len(new))
        if stamp and stamp != before and not fed.of_root:
            with self._database.writing() as connection:
                connection.execute(delete(BATCHES).where(BATCHES.c.place == _STAMP))
                connection.execute(insert(BATCHES), [{"place": _STAMP, "name": stamp}])

    @cached_property
    def _stamps(self) -> Stamped | None:
        # If several machines write, stamps arrive late and by different clocks.
        local = isinstance(self._store, FileStore) and not network_filesystem(self._store.root)
        return self._store if local and isinstance(self._store, Stamped) else None

    def _stamp(self, folders: Sequence[str]) -> str:
        """Return a stamp that changes with anything in these directories; "" if the store has none."""
        return self._stamps.stamp(folders) if self._stamps else ""

    def _stamp_of_run(self, place: str) -> str:
        return self._stamp([f"{place}/{folder}".strip("/") for folder in CHANGING]) if self._stamps else ""

    def _take_in(self, batches: Iterable[Batch]) -> None:
        """Store entries of the root's journal and update the items that they change.

        Both in one transaction: a crash in between must not leave a batch marked as read without its effects.
        """
        changed: dict[str, None] = {}
        with self._database.writing() as connection:
            for batch in batches:
                known = select(BATCHES.c.name).where(BATCHES.c.place == OF_ROOT, BATCHES.c.name == batch.name)
                if connection.execute(known).first() is not None:
                    continue  # another process has indexed it meanwhile
                connection.execute(insert(BATCHES), [{"place": OF_ROOT, "name": batch.name}])
                store_entries(connection, OF_ROOT, [(batch.name, entry) for entry in batch.entries])
                changed.update({entry.uid: None for entry in batch.entries})
            for uids in in_parts(changed, _FOLDED_AT_ONCE):
                _write_folded(connection, uids, {})

    def _feed_runs(
        self, fed: Fed, thorough: bool, again: Collection[str], progress: Callable[[int, int], object],
        give_way: Callable[[], object], before_records: Callable[[], object],
    ) -> None:
        def is_due(place: str) -> bool:
            give_way()
            return thorough or not self._is_settled(place, marks.get(place, ""), now)

        def read(place: str, store: Store, one: Glance, stamp: str) -> SeenRun | None:
            give_way()
            return self._reading.read(place, store, one, stamp=stamp, known_mark=mark_in(marks.get(place, "")),
                                      before_records=before_records)

        with self._database.reading() as connection:
            marks = {row.place: "" if row.place in again else row.mark
                     for row in connection.execute(select(FED.c.place, FED.c.mark))}
        denied: list[str] = []
        folders = runs_below(self._store, on_denied=denied.append)
        fed.denied = [_below(self._store.url, name) for name in sorted(denied)]
        now = self._clock.unix()
        due = list(filter(is_due, folders))
        for number, names in enumerate(in_parts(due, _RUNS_AT_ONCE)):
            progress(number * _RUNS_AT_ONCE, len(due))
            stores = [store_from_url(_below(self._store.url, name)) for name in names]
            stamps = [self._stamp_of_run(name) for name in names]
            seen = glances(stores)
            with ThreadPoolExecutor(_THREADS) as pool:
                found = list(pool.map(read, names, stores, seen, stamps))
            for one, item in zip(seen, found, strict=True):
                if problems := [*one.problems, *(item.damage if item is not None else ())]:
                    fed.of_runs[one.url] = problems
            self.write_runs([item for item in found if item is not None], fed)
            self._write_stamps({name: stamp for name, stamp, one, item in zip(names, stamps, seen, found, strict=True)
                                if item is None and one.state in ENDED and not one.problems}, marks)
        progress(len(due), len(due))
        gone = sorted(marks.keys() - set(folders))
        self._note_gone([name for name in gone if not any(f"{name}/".startswith(f"{folder}/") for folder in denied)],
                        fed)

    def _is_settled(self, place: str, known: str, now_unix: float) -> bool:
        """Return whether a run need not be read: it ended long ago, or its stamp is unchanged."""
        mark, _, stamp = known.partition("\n")
        if not has_ended(mark):
            return False
        # A run that ended long ago may have been continued since.
        return (bool(stamp) and self._stamp_of_run(place) == stamp) if self._stamps else \
            ended_long_ago(mark, now_unix)

    def _write_stamps(self, stamps: Mapping[str, str], marks: dict[str, str]) -> None:
        """Store the stamps of runs that were checked and are unchanged."""
        changed = [{"b_place": place, "b_mark": f"{mark_in(marks[place])}\n{stamp}"} for place, stamp in stamps.items()
                   if stamp and place in marks and marks[place].partition("\n")[2] != stamp]
        if changed:
            with self._database.writing() as connection:
                connection.execute(update(FED).where(FED.c.place == bindparam("b_place")).values(
                    mark=bindparam("b_mark")), changed)

    def write_runs(self, seen: Sequence[SeenRun], fed: Fed) -> None:
        """Index the contents of runs, and count them."""
        if not seen:
            return
        with self._database.writing() as connection:
            self._archive_replaced(connection, seen)
            for item in seen:
                connection.execute(delete(ENTRIES).where(ENTRIES.c.place == _journal_of(item.place)))
                connection.execute(delete(FED).where(FED.c.place == item.place))
                store_entries(connection, _journal_of(item.place), item.entries)
                connection.execute(insert(FED), [{"place": item.place, "uid": item.uid,
                                                  "mark": f"{item.mark}\n{item.stamp}".rstrip("\n")}])
            spoken_of = {entry.uid: None for item in seen for _, entry in item.entries}
            _write_folded(connection, spoken_of, {item.uid: item for item in seen})
        fed.runs += len(seen)

    def _archive_replaced(self, connection: Connection, seen: Sequence[SeenRun]) -> None:
        """Archive the runs whose directories other runs have now: a link to one of them opens the other."""
        places, uids = [item.place for item in seen], [item.uid for item in seen]
        known = {row.place: row.uid for row in connection.execute(
            select(FED.c.place, FED.c.uid).where(FED.c.place.in_(places)))}
        new = {storable(_below(self._store.url, place)): place for place, uid in zip(places, uids, strict=True)
               if known.get(place) != uid}
        before = connection.execute(select(ITEMS.c.uid, ITEMS.c.place).where(
            ITEMS.c.place.in_(new), ITEMS.c.kind == ItemKind.RUN, ITEMS.c.uid.not_in(uids))).all() if new else ()
        for uid, url in before:
            journal = _journal_of(new[url])
            kept = f"{journal}~{uid}"  # the journal of the other run replaces the one of that directory
            if connection.execute(update(ENTRIES).where(ENTRIES.c.place == journal, ENTRIES.c.uid == uid).values(
                    place=kept)).rowcount:
                self._note_absent(connection, new[url], uid, {
                    "state": GONE, "message": "Its directory holds another run now.", "archived": True}, kept)

    def _note_gone(self, places: Sequence[str], fed: Fed) -> None:
        """Mark missing runs as gone; what the catalog knows of them stays."""
        for place in places:
            with self._database.writing() as connection:
                uid = connection.execute(select(FED.c.uid).where(FED.c.place == place)).scalars().first()
                fed.gone += uid is not None and self._note_absent(connection, place, uid, {
                    "state": GONE, "message": "Its directory no longer exists."})

    def _note_absent(
        self, connection: Connection, place: str, uid: str, facts: Mapping[str, Any], journal: str = ""
    ) -> bool:
        """Note facts about a run that is no longer at a place; return False if it still exists elsewhere.

        Its entries are in the journal of the place, or in another one.
        """
        journal = journal or _journal_of(place)
        connection.execute(delete(FED).where(FED.c.place == place))
        moved = connection.execute(select(FED.c.place).where(FED.c.uid == uid)).first() is not None
        if moved:
            connection.execute(delete(ENTRIES).where(ENTRIES.c.place == journal))
        else:
            store_entries(connection, journal, [("~", Entry(uid, Verb.SET, facts, self._clock.unix()))])
        _write_folded(connection, [uid], {})
        return not moved


def _write_folded(connection: Connection, uids: Collection[str], seen: Mapping[str, SeenRun]) -> None:
    """Recompute items from all their entries and, for those in `seen`, from their records."""
    by_item = entries_by_item(connection, uids)
    states = [state for uid, entries in by_item.items() if (state := folded(uid, entries)).kind]
    for state in states:
        if state.uid in seen:
            # Entries about a run add to what it recorded, and override it.
            state.metrics = seen[state.uid].metrics | state.metrics
    # For runs that are not read now, earlier values from their records stay.
    recorded = {state.uid for state in states if state.kind == ItemKind.RUN and state.uid not in seen}
    measured = [state for state in states if state.uid in recorded and state.metrics]
    before = _metrics_before(connection, [state.uid for state in measured])
    for state in measured:
        state.metrics = {**before.get(state.uid, {}), **state.metrics}
    writer = ItemWriter(connection)
    findings = {uid: item.findings for uid, item in seen.items()}
    writer.write([state for state in states if state.uid not in recorded], findings=findings)
    writer.write(measured, kept=(FINDINGS,))
    writer.write([state for state in states if state.uid in recorded and not state.metrics], kept=RECORDED)


def _metrics_before(connection: Connection, uids: Sequence[str]) -> dict[str, Mapping[str, MetricSummary]]:
    ids = [number for some in in_parts(uids, _AT_ONCE)
           for number in connection.execute(select(ITEMS.c.id).where(ITEMS.c.uid.in_(some))).scalars()]
    return {item.uid: item.metrics for item in items_by_id(connection, ids)}


def _journal_of(place: str) -> str:
    """Return the place of a run's own journal; the root itself may be a run."""
    return place or "."


def _below(url: str, name: str) -> str:
    return f"{url.rstrip('/')}/{name}" if name else url
