"""Keeps the catalogs of the served roots up to date, in background threads: indexing many new runs takes long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import BarographError, CatalogUnavailable
from barograph.experiments.catalog import Catalog
from barograph.experiments.handle import catalog_at
from barograph.model.clock import Clock, SystemClock
from barograph.model.one_line import shown
from barograph.web.in_flight import InFlight
from barograph.web.places import Root

_LOG = logging.getLogger(__name__)
_FRESH_SECS = 2.0
_SHARE = 10
"""Indexing takes at most one part in this many of the time."""
_FEW = 300
"""A request waits until this many runs are indexed; of more, it shows how far it is."""
PATIENCE_SECS = 10.0
_GIVE_WAY_SECS = 0.1
"""Longest wait for requests before each run: where somebody always asks, indexing still goes on."""
_PAGE_FIRST_SECS = 1.5
"""Pause before a catalog with more runs is brought up to date for the first time: it would slow down the first page."""
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Indexing:
    """Progress of the catalog of a root.

    Attributes:
        done, total: Runs read so far and in all, during an update; else 0.
        is_first: Whether the catalog was never complete since the server started.
        failure: Why the update failed; "" if it did not.
        problems: Runs that cannot be read, a sentence each.
        more_problems: Number of problems left out.
    """

    done: int
    total: int
    is_first: bool
    failure: str
    problems: tuple[str, ...] = ()
    more_problems: int = 0


@dataclass(slots=True)
class _State:
    catalog: Catalog | None = None
    runs: int = 0
    done: int = 0
    total: int = 0
    is_complete: bool = False
    is_busy: bool = False
    waiting: int = 0
    due_at: float = float("-inf")
    soonest_at: float = float("-inf")
    failure: BarographError | None = None
    damage: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)


class Indexes:
    """Catalogs of roots, updated on request.

    Args:
        clock: Decides when.
        patience_secs: Longest wait of a request.
        in_flight: Requests, which indexing lets go first.
        pause: Sleeps for some seconds.
        before_records: Called before records of runs are read, from several threads.
    """

    def __init__(
        self, clock: Clock | None = None, *, patience_secs: float = PATIENCE_SECS,
        in_flight: InFlight | None = None, pause: Callable[[float], object] = time.sleep,
        before_records: Callable[[], object] = lambda: None,
    ) -> None:
        self.before_records = before_records
        self._clock, self._pause = clock or SystemClock(), pause
        self._patience_secs, self._in_flight = patience_secs, in_flight or InFlight()
        self._states: dict[int, _State] = {}
        self._lock = threading.Lock()

    def catalog(self, root: Root) -> Catalog:
        """Return the catalog of a root: updated if there are few runs, otherwise while the update runs.

        Raises:
            CatalogError: The catalog cannot be opened, or is being migrated.
            BarographError: The root could not be read when it was indexed for the first time.
        """
        state = self._state(root)
        with state.changed:
            if not state.is_busy and self._clock.monotonic() >= state.due_at:
                self._start(state, root)
            self._wait(state)
            if state.failure is not None and not state.is_busy and not state.is_complete:
                raise state.failure
            if state.catalog is None:
                raise CatalogUnavailable(f"The catalog of {root.place} is being read or migrated. Try again in a "
                                         "minute.")
            return state.catalog

    def read_again(self, root: Root) -> Catalog | None:
        """Update the catalog now and return it; None if that takes long or was done a moment ago."""
        state = self._state(root)
        with state.changed:
            if state.is_busy or self._clock.monotonic() < state.soonest_at:
                return None
            self._start(state, root)
            self._wait(state)
            return None if state.is_busy else state.catalog

    def of(self, root: Root) -> Indexing:
        """Return the progress of an update."""
        state = self._state(root)
        with state.changed:
            return Indexing(state.done, state.total if state.is_busy else 0, not state.is_complete,
                            str(state.failure or ""), tuple(state.damage[:_MOST_PROBLEMS]),
                            max(0, len(state.damage) - _MOST_PROBLEMS))

    def _state(self, root: Root) -> _State:
        with self._lock:
            return self._states.setdefault(root.number, _State())

    def _start(self, state: _State, root: Root) -> None:
        state.is_busy, state.done, state.total = True, 0, 0
        # A daemon, so that Ctrl-C does not wait for it.
        threading.Thread(target=self._update, args=(state, root), daemon=True, name="barograph-index").start()

    def _wait(self, state: _State) -> None:
        state.waiting += 1
        state.changed.wait_for(lambda: not state.is_busy or (
            state.catalog is not None and max(state.runs, state.total) > _FEW), self._patience_secs)
        state.waiting -= 1

    def _give_way(self, state: _State) -> None:
        """Let requests go first, except those that wait for this update."""
        if not state.waiting:
            self._in_flight.wait(_GIVE_WAY_SECS)

    def _update(self, state: _State, root: Root) -> None:
        begin = self._clock.monotonic()
        failure: BarographError | None = None
        damage: list[str] = []
        try:
            damage = self._feed(state, root)
        except BarographError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a defect; nobody else would see it in this thread
            # Without its message, as in `app`.
            failure = CatalogUnavailable(
                f"The studio could not index the runs: {type(error).__name__}. Its output has the details.")
            if str(failure) != str(state.failure):  # not at each of the next attempts, a few seconds apart
                _LOG.error("Indexing the runs below %s failed.", root.place, exc_info=error)
        end = self._clock.monotonic()
        with state.changed:
            state.is_busy, state.failure, state.damage = False, failure, damage
            state.is_complete = state.is_complete or failure is None
            state.soonest_at = end + _SHARE * (end - begin)
            state.due_at = max(end + _FRESH_SECS, state.soonest_at)
            state.changed.notify_all()

    def _feed(self, state: _State, root: Root) -> list[str]:
        """Open the catalog, bring it up to date, and return what cannot be read."""
        catalog = state.catalog or catalog_at(root.place)
        self._note(state, catalog)
        if state.runs > _FEW and not state.is_complete:
            self._pause(_PAGE_FIRST_SECS)
        fed = catalog.feed(progress=self._progress_of(state), give_way=lambda: self._give_way(state),
                           before_records=self.before_records)
        damage = [shown(line) for line in fed.damage]
        self._note(state, catalog)
        return damage

    def _note(self, state: _State, catalog: Catalog) -> None:
        runs = catalog.indexed_runs
        with state.changed:
            state.catalog, state.runs = catalog, runs
            state.changed.notify_all()

    def _progress_of(self, state: _State) -> Any:
        def progress(done: int, total: int) -> None:
            with state.changed:
                state.done, state.total = done, total
                state.changed.notify_all()
        return progress
