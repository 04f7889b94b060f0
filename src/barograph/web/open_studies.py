"""Finds studies below the served roots, and keeps the requested ones open."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import BarographError, StoreError, UnknownStudy
from barograph.jobs.home import JobsHome
from barograph.model.clock import ManualClock
from barograph.model.plain import plain
from barograph.store.base import Browsable, Store
from barograph.tune.live_values import Latest
from barograph.tune.overview import StudyRow, overview_of, study_row
from barograph.tune.studies import name_of
from barograph.tune.study import Study
from barograph.tune.study_events import EVENTS, has_event, identity_of
from barograph.tune.study_home import FOLDER, StudyHome
from barograph.web.kept_open import KeptOpen
from barograph.web.places import Places, Root, store_at
from barograph.web.trial_runs import study_named_in

_HOME = "home"
"""First part of the keys of studies of this user outside the served roots."""
_MOST_OPEN = 32
_MOST_ROWS = 10_000


@dataclass(slots=True)
class _Open:
    study: Study
    identity: bytes = b""
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: tuple[tuple[int, Mapping[int, Latest]], dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class _KeptRow:
    """A row of the list.

    Attributes:
        row: The row.
        identity: That of the study it is of.
        following: Name of the event that would change it.
    """

    row: StudyRow
    identity: bytes
    following: str


class OpenStudies:
    """Opens studies by key: the number of a root and the path below it; or "home/NAME" for another study of this user.

    Args:
        places: The served roots.
        given: Studies of this process, by key.
    """

    def __init__(self, places: Places, given: Mapping[str, Study] | None = None) -> None:
        self._places = places
        self._given = {key: _Open(study) for key, study in (given or {}).items()}
        self._open = KeptOpen[_Open](_MOST_OPEN)
        self._rows = KeptOpen[_KeptRow](_MOST_ROWS)

    def keys(self) -> tuple[list[str], list[str]]:
        """Return the keys of all studies, and what cannot be read, one sentence each."""
        found: dict[str, None] = dict.fromkeys(self._given)
        problems = []
        for root in self._places.roots:
            try:
                found.update(dict.fromkeys(_below(root)))
            except StoreError as error:
                problems.append(f"Cannot read {root.place}: {error}")
        home = StudyHome(JobsHome())
        for name in home.names():
            with suppress(UnknownStudy):  # its record is damaged: the place is unknown
                found[self.key_of(home.url(name)) or f"{_HOME}/{name}"] = None
        return list(found), problems

    def key_of_run(self, key: str) -> str:
        """Return the key that the study of a run has if the run is one of its trials.

        The job of a trial has the name of the study and a number.
        """
        above, _, job = key.rpartition("/")
        return f"{above}/{FOLDER}/{study_named_in(job) or job}"

    def keys_of_jobs(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the key of the study that each job of this user is a trial of, by its name; None if it is no trial."""
        home = StudyHome(JobsHome())
        study_of = {name: study_named_in(name) for name in names}
        keys: dict[str, str | None] = {}
        for study in set(study_of.values()) - {""}:
            with suppress(UnknownStudy):
                keys[study] = (self.key_of(home.url(study)) or f"{_HOME}/{study}") if home.has(study) else None
        return {name: keys.get(study) for name, study in study_of.items()}

    def place_of(self, key: str) -> str:
        """Return the path or URL of a study.

        Raises:
            UnknownName: The key is not below a root.
            UnknownStudy: This user has no such study.
        """
        first, _, name = key.partition("/")
        if first != _HOME:
            return self._places.place_of(key)
        if "/" in name or "\\" in name or name not in (home := StudyHome(JobsHome())).names():
            raise UnknownStudy(f"There is no study named {name[:200]!r}.")
        return home.url(name)

    def store_of(self, key: str) -> Store:
        """Return the store of a study.

        Raises:
            UnknownName: The key is not below a root.
            UnknownStudy: There is no study.
        """
        place = self.place_of(key)
        if (store := store_at(place)) is None:
            raise UnknownStudy(f"There is no study at {place}.")
        return store

    @contextmanager
    def study(self, key: str) -> Iterator[Study]:
        """Yield a study, up to date, locked for this thread.

        Raises:
            UnknownName, UnknownStudy, TuneError, StoreError: It cannot be opened.
        """
        with self._lent(key) as opened:
            yield opened.study

    def overview(self, key: str) -> dict[str, Any]:
        """Return the overview of a study, cached until its next event or live value.

        Raises:
            UnknownName, UnknownStudy, TuneError, StoreError: It cannot be opened.
        """
        with self._lent(key) as opened:
            state = opened.study.events, opened.study.latest()
            if opened.answer is None or opened.answer[0] != state:
                known = opened.answer[1] if opened.answer and opened.answer[0][0] == state[0] else None
                found = (overview_of(opened.study, self.name_of(key)).to_json() if known is None
                         else _with_latest(known, state[1]))
                opened.answer = state, found
            return opened.answer[1]

    def row(self, key: str) -> StudyRow:
        """Return a study as a row of the list, cached until its next event.

        Raises:
            UnknownName, UnknownStudy, TuneError, StoreError: It cannot be opened.
        """
        if key not in self._given and (kept := self._rows.known(key)) is not None:
            store = self.store_of(key)
            if identity_of(store) == kept.identity and not has_event(store, kept.following):
                return kept.row
        with self._lent(key) as opened:
            row = study_row(self.name_of(key), opened.study)
            kept = _KeptRow(row, opened.identity, opened.study.following_event)
        self._rows.drop(key)
        self._rows.opened(key, lambda: kept)
        return row

    def name_of(self, key: str) -> str:
        """Return the name of a study: the last part of its path."""
        if key in self._given:
            return key
        return name_of(self.place_of(key))

    def key_of(self, url: str) -> str | None:
        """Return the key of a place; None if no root contains it."""
        place = url.removeprefix("file://").rstrip("/")
        return next((root.key_of(place) for root in self._places.roots
                     if f"{place}/".startswith(f"{root.place.rstrip('/')}/")), None)

    @contextmanager
    def _lent(self, key: str) -> Iterator[_Open]:
        if key in self._given:
            yield self._given[key]
            return
        try:
            store = self.store_of(key)
        except BarographError:
            self._open.drop(key)
            raise
        identity = identity_of(store)
        known = self._open.known(key)
        if known is not None and known.identity != identity:  # deleted, and created again
            self._open.drop(key)
        # With a clock that stands still: reading a study must not count as time spent on it.
        opened = self._open.opened(key, lambda: _Open(Study.open(store, clock=ManualClock()), identity))
        with opened.lock:
            opened.study.refresh()
            yield opened


def _with_latest(overview: Mapping[str, Any], latest: Mapping[int, Latest]) -> dict[str, Any]:
    """Return an overview with newer values of the running trials: nothing else depends on them."""
    trials = list(overview["trials"])
    for number, (step, value) in latest.items():
        trials[number] = {**trials[number], "step": step, "last": plain(value)}
    return {**overview, "trials": trials}


def _below(root: Root) -> Iterator[str]:
    """Yield the keys of the studies in a root: itself, its folders, and those in its folder of studies."""
    store = root.store
    if not isinstance(store, Browsable):
        return
    last = EVENTS.rpartition("/")[0]
    top = store.level()
    if EVENTS in store.level(last).folders:
        yield str(root.number)
    within = store.level(FOLDER).folders
    if "://" in root.place:  # in a bucket, each listing is a request
        yield from (f"{root.number}/{folder}" for folder in within)
        return
    for folder in (*within, *top.folders):  # some are runs
        if f"{folder}/{EVENTS}" in store.level(f"{folder}/{last}").folders:
            yield f"{root.number}/{folder}"
