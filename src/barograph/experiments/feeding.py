"""The catalog kept up with its stores: new batches of the journal and runs that have moved on are taken in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from barograph.experiments.database import Database
from barograph.experiments.folding import folded
from barograph.experiments.item import items_by_id
from barograph.experiments.marks import CHANGING, ended_long_ago, has_ended, mark_in
from barograph.experiments.recorded_entries import entries_by_item, store_entries
from barograph.experiments.run_entries import ENDED
from barograph.experiments.run_reading import RunReading, SeenRun, read_batch
from barograph.experiments.schema import BATCHES, ENTRIES, FED, FINDINGS, ITEMS, OF_ROOT, RECORDED
from barograph.experiments.writing import ItemWriter, in_parts
from barograph.machine.filesystem import network_filesystem
from barograph.model.clock import Clock
from barograph.model.items import Entry, ItemKind, MetricSummary, Verb
from barograph.runs.reading.glance import glances, runs_below
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Batch, Journal
from barograph.store.base import Stamped, Store
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

_THREADS = 8
_AT_ONCE = 500
_ENTRIES_AT_ONCE = 20_000
_FOLDED_AT_ONCE = 10_000
_STAMP = "/stamp"
"""In place of a journal: its batch is the stamp that the root's journal had when all of it was taken in."""


@dataclass(slots=True)
class Fed:
    """What was taken in.

    Attributes:
        batches: Of the root's journal.
        runs: That were new, or had moved on.
        gone: Runs whose folders are no longer there.
        damage: What could not be read, one sentence each; the rest was taken in.
    """

    batches: int = 0
    runs: int = 0
    gone: int = 0
    damage: list[str] = field(default_factory=list)


class Feeder:
    """Takes in what a root of runs holds.

    Args:
        database: Of the catalog.
        store: The root.
        clock: Tells how long ago a run ended.
    """

    def __init__(self, database: Database, store: Store, clock: Clock) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._reading = RunReading()

    def feed(
        self, *, thorough: bool = False, again: Collection[str] = (),
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> Fed:
        """Take in what is new.

        Args:
            thorough: Look at every run, those too that ended long ago.
            again: Places of runs, below the root, that were written anew: they are read though they look as before.
            progress: Called with how many batches of the journal have been read, and how many there are to read; and
                then likewise with runs.

        Raises:
            CatalogUnavailable: It cannot be written.
            StoreError: The root cannot be read.
        """
        fed = Fed()
        self._feed_journal(fed, thorough, progress)
        self._feed_runs(fed, thorough, again, progress)
        return fed

    def look_again(self, uids: Collection[str]) -> None:
        """Have the next `feed` look at these runs, whether they have moved on or not."""
        with self._database.writing() as connection:
            for some in in_parts(uids, _AT_ONCE):
                connection.execute(delete(FED).where(FED.c.uid.in_(some)))

    def feed_batch(self, batch: Batch) -> None:
        """Take in a batch of the root's journal that was just written.

        Raises:
            CatalogUnavailable: It cannot be written.
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
                waiting += [item for item in pool.map(lambda name: read_batch(journal, name, fed.damage), names)
                            if item is not None]
                # A batch may hold one entry or thousands: memory is bounded by what they hold.
                if sum(len(batch.entries) for batch in waiting) >= _ENTRIES_AT_ONCE:
                    self._take_in(waiting)
                    fed.batches += len(waiting)
                    waiting = []
        self._take_in(waiting)
        fed.batches += len(waiting)
        progress(len(new), len(new))
        if stamp and stamp != before and not fed.damage:
            with self._database.writing() as connection:
                connection.execute(delete(BATCHES).where(BATCHES.c.place == _STAMP))
                connection.execute(insert(BATCHES), [{"place": _STAMP, "name": stamp}])

    @cached_property
    def _stamps(self) -> Stamped | None:
        # Where several machines write, what one has changed is seen late by another, and by another clock.
        local = isinstance(self._store, FileStore) and not network_filesystem(self._store.root)
        return self._store if local and isinstance(self._store, Stamped) else None

    def _stamp(self, folders: Sequence[str]) -> str:
        """Return what changes when anything in these folders does; "" where that cannot be told."""
        return self._stamps.stamp(folders) if self._stamps else ""

    def _stamp_of_run(self, place: str) -> str:
        return self._stamp([f"{place}/{folder}".strip("/") for folder in CHANGING]) if self._stamps else ""

    def _take_in(self, batches: Iterable[Batch]) -> None:
        """Keep entries of the root's journal, and make those anew whom they speak of.

        Both in one transaction: whoever is killed in between must not leave a batch that is known and says nothing.
        """
        told: dict[str, None] = {}
        with self._database.writing() as connection:
            for batch in batches:
                known = select(BATCHES.c.name).where(BATCHES.c.place == OF_ROOT, BATCHES.c.name == batch.name)
                if connection.execute(known).first() is not None:
                    continue  # another process has taken it in meanwhile
                connection.execute(insert(BATCHES), [{"place": OF_ROOT, "name": batch.name}])
                store_entries(connection, OF_ROOT, [(batch.name, entry) for entry in batch.entries])
                told.update({entry.uid: None for entry in batch.entries})
            for uids in in_parts(told, _FOLDED_AT_ONCE):
                _write_folded(connection, uids, {})

    def _feed_runs(
        self, fed: Fed, thorough: bool, again: Collection[str], progress: Callable[[int, int], object]
    ) -> None:
        with self._database.reading() as connection:
            marks = {row.place: "" if row.place in again else row.mark
                     for row in connection.execute(select(FED.c.place, FED.c.mark))}
        folders = runs_below(self._store)
        now = self._clock.unix()
        due = [name for name in folders if thorough or not self._is_settled(name, marks.get(name, ""), now)]
        for number, names in enumerate(in_parts(due, _AT_ONCE)):
            progress(number * _AT_ONCE, len(due))
            stores = [store_from_url(_below(self._store.url, name)) for name in names]
            stamps = [self._stamp_of_run(name) for name in names]
            seen = glances(stores)
            with ThreadPoolExecutor(_THREADS) as pool:
                found = list(pool.map(lambda place, store, one, stamp: self._reading.read(
                    place, store, one, stamp=stamp, known_mark=mark_in(marks.get(place, ""))),
                    names, stores, seen, stamps))
            fed.damage += [f"{problem} ({one.url})" for one in seen for problem in one.problems]
            fed.damage += [problem for item in found if item is not None for problem in item.damage]
            self._write_runs([item for item in found if item is not None], fed)
            self._write_stamps({name: stamp for name, stamp, one, item in zip(names, stamps, seen, found, strict=True)
                                if item is None and one.state in ENDED and not one.problems}, marks)
        progress(len(due), len(due))
        self._note_gone(sorted(marks.keys() - set(folders)), fed)

    def _is_settled(self, place: str, known: str, now_unix: float) -> bool:
        """Return whether a run need not be looked at: nothing comes any more, or nothing has come since."""
        mark, _, stamp = known.partition("\n")
        if not has_ended(mark):
            return False
        # One that ended last year may have gone on since.
        return (bool(stamp) and self._stamp_of_run(place) == stamp) if self._stamps else \
            ended_long_ago(mark, now_unix)

    def _write_stamps(self, stamps: Mapping[str, str], marks: dict[str, str]) -> None:
        """Keep the stamps of runs that were looked at and are as they were."""
        changed = [{"b_place": place, "b_mark": f"{mark_in(marks[place])}\n{stamp}"} for place, stamp in stamps.items()
                   if stamp and place in marks and marks[place].partition("\n")[2] != stamp]
        if changed:
            with self._database.writing() as connection:
                connection.execute(update(FED).where(FED.c.place == bindparam("b_place")).values(
                    mark=bindparam("b_mark")), changed)

    def _write_runs(self, seen: Sequence[SeenRun], fed: Fed) -> None:
        if not seen:
            return
        with self._database.writing() as connection:
            for item in seen:
                connection.execute(delete(ENTRIES).where(ENTRIES.c.place == _journal_of(item.place)))
                connection.execute(delete(FED).where(FED.c.place == item.place))
                store_entries(connection, _journal_of(item.place), item.entries)
                connection.execute(insert(FED), [{"place": item.place, "uid": item.uid,
                                                  "mark": f"{item.mark}\n{item.stamp}".rstrip("\n")}])
            spoken_of = {entry.uid: None for item in seen for _, entry in item.entries}
            _write_folded(connection, spoken_of, {item.uid: item for item in seen})
        fed.runs += len(seen)

    def _note_gone(self, places: Sequence[str], fed: Fed) -> None:
        """Say of runs that are no longer where they were that they are gone; what was known of them stays."""
        for place in places:
            with self._database.writing() as connection:
                uid = connection.execute(select(FED.c.uid).where(FED.c.place == place)).scalars().first()
                connection.execute(delete(FED).where(FED.c.place == place))
                moved = connection.execute(select(FED.c.place).where(FED.c.uid == uid)).first()
                if uid is None:
                    continue
                if moved is not None:
                    # It was there twice, or has been moved: it is where it still is.
                    connection.execute(delete(ENTRIES).where(ENTRIES.c.place == _journal_of(place)))
                    _write_folded(connection, [uid], {})
                    continue
                store_entries(connection, _journal_of(place), [("~", Entry(
                    uid, Verb.SET, {"state": "gone", "message": "Its directory no longer exists."}, self._clock.unix()
                ))])
                _write_folded(connection, [uid], {})
                fed.gone += 1


def _write_folded(connection: Connection, uids: Collection[str], seen: Mapping[str, SeenRun]) -> None:
    """Make items anew of all that was told of them; those of `seen` of what was recorded, too."""
    told = entries_by_item(connection, uids)
    states = [state for uid, entries in told.items() if (state := folded(uid, entries)).kind]
    for state in states:
        if state.uid in seen:
            # What somebody says of a run counts, beside what it recorded and in place of it.
            state.metrics = seen[state.uid].metrics | state.metrics
    # Of runs that are not looked at now, what their records said stays, whether they are still there or not.
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
