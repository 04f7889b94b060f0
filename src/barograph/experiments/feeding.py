"""The catalog kept up with its stores: new batches of the journal and runs that have moved on are taken in."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from barograph.errors import BarographError, DamagedChunk, NewerFormat, StoreError
from barograph.experiments.checking import check_entry
from barograph.experiments.database import Database
from barograph.experiments.folding import folded, without_place
from barograph.experiments.marks import CHANGING, ended_long_ago, has_ended, mark_in, mark_of
from barograph.experiments.run_entries import ENDED, run_entries
from barograph.experiments.schema import BATCHES, ENTRIES, FED, OF_ROOT
from barograph.experiments.writing import ItemWriter, in_parts, insert_rows, storable
from barograph.machine.filesystem import network_filesystem
from barograph.model.clock import Clock
from barograph.model.finding import Finding
from barograph.model.items import Entry, MetricSummary, Verb
from barograph.model.origin import Origin
from barograph.runs.glance import Glance, glances, runs_below
from barograph.runs.journal import JOURNAL_OF_ROOT, JOURNAL_OF_RUN, Batch, Journal
from barograph.runs.metrics import metrics_of
from barograph.runs.origins import read_origin
from barograph.runs.reader import Run
from barograph.store.base import Stamped, Store
from barograph.store.objects import FileStore
from barograph.store.urls import store_from_url

_THREADS = 8
_AT_ONCE = 500
_ENTRIES_AT_ONCE = 20_000
_MOST_FOLLOWED = 64
"""Runs under way of which it is remembered what was read: a machine that asks for more reads those anew."""
_FOLDED_AT_ONCE = 10_000
_SENSELESS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
_PAPERS = ""
"""The batch, before all others, that the papers of a run make."""

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


@dataclass(frozen=True, slots=True)
class _Seen:
    """A run as it was found."""

    place: str
    mark: str
    uid: str
    entries: Sequence[tuple[str, Entry]]
    metrics: dict[str, MetricSummary]
    findings: Sequence[Finding]
    stamp: str


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
        self._stamps: Stamped | Literal[False] | None = None
        self._followed: dict[str, Run] = {}

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
                waiting += [item for item in pool.map(lambda name: _read(journal, name, fed), names)
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

    def _stamp(self, folders: Sequence[str]) -> str:
        """Return what changes when anything in these folders does; "" where that cannot be told."""
        if self._stamps is None:
            # Where several machines write, what one has changed is seen late by another, and by another clock.
            local = isinstance(self._store, FileStore) and not network_filesystem(self._store.root)
            self._stamps = self._store if local and isinstance(self._store, Stamped) else False
        return self._stamps.stamp(folders) if self._stamps else ""

    def _stamp_of_run(self, place: str) -> str:
        return self._stamp([f"{place}/{folder}".strip("/") for folder in CHANGING])

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
                _insert_entries(connection, OF_ROOT, [(batch.name, entry) for entry in batch.entries])
                told.update({entry.uid: None for entry in batch.entries})
            for uids in in_parts(told, _FOLDED_AT_ONCE):
                # Of runs what their records say stays.
                _write_folded(connection, uids, {}, keep_numbers=True)

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
                found = list(pool.map(lambda place, store, one, stamp: self._see(place, store, one, stamp, marks, fed),
                                      names, stores, seen, stamps))
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
        return ended_long_ago(mark, now_unix) or (bool(stamp) and self._stamp_of_run(place) == stamp)

    def _write_stamps(self, stamps: Mapping[str, str], marks: dict[str, str]) -> None:
        """Keep the stamps of runs that were looked at and are as they were."""
        changed = [{"b_place": place, "b_mark": f"{mark_in(marks[place])}\n{stamp}"} for place, stamp in stamps.items()
                   if stamp and place in marks and marks[place].partition("\n")[2] != stamp]
        if changed:
            with self._database.writing() as connection:
                connection.execute(update(FED).where(FED.c.place == bindparam("b_place")).values(
                    mark=bindparam("b_mark")), changed)

    def _see(
        self, place: str, store: Store, seen: Glance, stamp: str, marks: dict[str, str], fed: Fed
    ) -> _Seen | None:
        """Return a run as it is now; None where it is as it was, or says nothing of itself."""
        fed.damage += [f"{problem} ({store.url})" for problem in seen.problems]
        if seen.manifest is None:
            return None
        mark = mark_of(seen)
        if mark_in(marks.get(place, "")) == mark and seen.state in ENDED:
            return None
        entries: list[tuple[str, Entry]] = []
        metrics: dict[str, MetricSummary] = {}
        origin: Origin | None = None
        try:
            origin = read_origin(store)
            journal = Journal(store, JOURNAL_OF_RUN)
            for name in journal.names():
                batch = _read(journal, name, fed)
                entries += [(name, entry) for entry in batch.entries] if batch else []
            metrics = self._metrics(place, store, goes_on=seen.state not in ENDED)
        except BarographError as error:
            stamp = ""
            fed.damage.append(f"{error} ({store.url})")
        told = _sensible(run_entries(seen, seen.manifest, origin), store.url, fed)
        entries = [*((_PAPERS, entry) for entry in told), *entries]
        return _Seen(place, mark, seen.manifest.run_id, entries, metrics, seen.findings,
                     stamp if seen.state in ENDED else "")

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

    def _write_runs(self, seen: Sequence[_Seen], fed: Fed) -> None:
        if not seen:
            return
        with self._database.writing() as connection:
            for item in seen:
                connection.execute(delete(ENTRIES).where(ENTRIES.c.place == _journal_of(item.place)))
                connection.execute(delete(FED).where(FED.c.place == item.place))
                _insert_entries(connection, _journal_of(item.place), item.entries)
                connection.execute(insert(FED), [{"place": item.place, "uid": item.uid,
                                                  "mark": f"{item.mark}\n{item.stamp}".rstrip("\n")}])
            spoken_of = {entry.uid: None for item in seen for _, entry in item.entries}
            _write_folded(connection, list(spoken_of), {item.uid: item for item in seen})
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
                    _write_folded(connection, [uid], {}, keep_numbers=True)
                    continue
                _insert_entries(connection, _journal_of(place), [("~", Entry(
                    uid, Verb.SET, {"state": "gone", "message": "Its folder is no longer there."}, self._clock.unix()
                ))])
                _write_folded(connection, [uid], {}, keep_numbers=True)
                fed.gone += 1


def _write_folded(
    connection: Connection, uids: Sequence[str], seen: dict[str, _Seen], *, keep_numbers: bool = False
) -> None:
    recorded = set(connection.execute(select(FED.c.uid)).scalars()) if keep_numbers else set()
    writer = ItemWriter(connection)
    states = [folded(uid, entries) for uid, entries in _entries_of(connection, uids)]
    for state in states:
        if state.uid in seen:
            state.metrics |= seen[state.uid].metrics
    known = [state for state in states if state.kind]
    findings = {uid: item.findings for uid, item in seen.items()}
    writer.write([state for state in known if state.uid not in recorded], findings=findings)
    writer.write([state for state in known if state.uid in recorded], keep_numbers=True)


def _entries_of(connection: Connection, uids: Sequence[str]) -> Iterator[tuple[str, list[Entry]]]:
    found: dict[str, list[Entry]] = {uid: [] for uid in uids}
    for some in in_parts(uids, _AT_ONCE):
        rows = connection.execute(
            select(ENTRIES.c.uid, ENTRIES.c.verb, ENTRIES.c.data, ENTRIES.c.time_unix, ENTRIES.c.by, ENTRIES.c.batch)
            .where(ENTRIES.c.uid.in_(some)).order_by(ENTRIES.c.time_unix, ENTRIES.c.batch, ENTRIES.c.position)
        )
        for uid, verb, data, time_unix, by, batch in rows:
            entry = Entry(uid, Verb(verb), json.loads(data), time_unix, by)
            found[uid].append(entry if batch == _PAPERS else without_place(entry))
    return iter(found.items())


def _insert_entries(connection: Connection, place: str, entries: Iterable[tuple[str, Entry]]) -> None:
    rows: list[dict[str, Any]] = [
        {"uid": entry.uid, "place": place, "batch": batch, "position": position, "verb": str(entry.verb),
         "data": storable(json.dumps(entry.data, ensure_ascii=False)), "time_unix": entry.time_unix,
         "by": storable(entry.by)}
        for position, (batch, entry) in enumerate(entries)
    ]
    if rows:
        insert_rows(connection, ENTRIES, rows)


def _read(journal: Journal, name: str, fed: Fed) -> Batch | None:
    try:
        batch = journal.read(name)
        for entry in batch.entries:
            check_entry(entry)
        return batch
    except (DamagedChunk, NewerFormat, StoreError) as error:
        fed.damage.append(str(error))
    except _SENSELESS as error:
        fed.damage.append(f"A batch of the journal makes no sense: {error!r} ({name}).")
    return None


def _sensible(entries: Iterable[Entry], url: str, fed: Fed) -> Iterator[Entry]:
    for entry in entries:
        try:
            check_entry(entry)
        except _SENSELESS as error:
            fed.damage.append(f"What a run says of itself makes no sense: {error!r} ({url}).")
        else:
            yield entry


def _journal_of(place: str) -> str:
    """Return the place of a run's own journal; the root itself may be a run."""
    return place or "."


def _below(url: str, name: str) -> str:
    return f"{url.rstrip('/')}/{name}" if name else url
