"""Watches every run below a root, both existing and new ones.

Each run has its own watcher, which keeps its state in the run, so a restarted service continues where it stopped. A run
that has ended and was evaluated is released; from then on it costs an occasional check. The cost of a poll is
proportional to new data, not to the number of runs.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from barograph.errors import BarographError, StoreError
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import SEVERITY_ORDER, Finding, FindingState
from barograph.queries.problems import Problem
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.reading.glance import runs_below
from barograph.runs.state.claim import attempts_of
from barograph.store.base import Store
from barograph.watch.loop import Watcher

DISCOVER_SECS = 10.0
"""Seconds between two searches of the root for new runs."""

IDLE_SECS = 5.0
"""Seconds between two polls of an idle run; a run with new steps is polled every time."""

_CAUGHT_UP_WITH = 16
"""Maximum number of open runs with a backlog."""

_LOOKED_AT_AGAIN = 20
"""Number of released runs checked again at each search: a killed run may be resumed."""

_Known = tuple[str, int]
"""ID of the released run and its number of attempts: a name may be reused."""


@dataclass(frozen=True, slots=True)
class Part:
    """Share of the runs that one of several services watches, by a hash of the name.

    Attributes:
        number: Index of the service, from 0.
        of: Number of services.
    """

    number: int = 0
    of: int = 1

    def takes(self, name: str) -> bool:
        """Return whether this service watches a run; exactly one does.

        Example:
            >>> [Part(number, 3).takes("runs/first") for number in range(3)].count(True)
            1
        """
        return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % self.of == self.number


@dataclass(slots=True)
class _Watched:
    """A watched run.

    Attributes:
        watcher: The run's watcher.
        due: Time of the next poll, by the clock.
        is_behind: More steps are available than were polled.
    """

    watcher: Watcher
    due: float = 0.0
    is_behind: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """Result of one poll.

    Attributes:
        steps: Number of evaluated steps over all runs.
        begun: Names of the newly watched runs.
        ended: Names of runs that have ended and are fully evaluated.
        problems: New problems of reading or watching, one sentence each.
        more: More steps are available.
    """

    steps: int = 0
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """State of one run in a service.

    Attributes:
        name: Name below the root.
        going_on: The run is still watched.
        steps: Number of evaluated steps.
        findings: All findings, open ones first, then the worst.
        problems: Problems of the watching, one sentence each.
        damage: Those problems that are about unreadable parts.
        found: Problems of the run, the worst first.
    """

    name: str
    going_on: bool
    steps: int
    findings: tuple[Finding, ...] = field(default=())
    problems: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    found: tuple[Problem, ...] = ()


class Service:
    """Watches every run below a root.

    Args:
        root: Store with the runs.
        store_of: Opens the store of the run with that name.
        watcher_of: Makes a watcher for a run, with rules and notifiers.
        part: Share of the runs.
        clock: Time.
    """

    def __init__(
        self,
        root: Store,
        store_of: Callable[[str], Store],
        watcher_of: Callable[[str, Store], Watcher],
        *,
        part: Part | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._root = root
        self._store_of = store_of
        self._watcher_of = watcher_of
        self._part = part or Part()
        self._clock = clock or SystemClock()
        self._watched: dict[str, _Watched] = {}
        self._done: dict[str, _Known] = {}
        self._waiting: deque[str] = deque()
        self._verdicts: dict[str, RunVerdict] = {}
        self._walked_at: float | None = None
        self._problems: list[str] = []
        self._reported: set[str] = set()

    @property
    def going_on(self) -> int:
        """Number of runs being watched."""
        return len(self._watched)

    def verdicts(self) -> Iterator[RunVerdict]:
        """Yield the state of each watched run, by name."""
        now = {name: _verdict(name, item.watcher, going_on=True) for name, item in self._watched.items()}
        yield from (verdict for _, verdict in sorted({**self._verdicts, **now}.items()))

    def poll(self) -> Turn:
        """Look for new runs, and evaluate the new steps of each run.

        A run that cannot be watched is reported once and retried; the others continue. Never raises.
        """
        begun = tuple(self._discovered())
        steps, ended, more = 0, [], False
        for name, item in list(self._watched.items()):
            now = self._clock.monotonic()
            if now < item.due:
                continue
            try:
                poll = item.watcher.poll()
            except Exception as error:  # noqa: BLE001 - see _problem
                self._problem(name, error)
                item.due, item.is_behind = now + DISCOVER_SECS, False
                continue
            steps += poll.steps
            item.is_behind = poll.more
            more = more or poll.more
            item.due = now if poll.steps or poll.more else now + IDLE_SECS
            if poll.ended and self._let_go(name, item):
                ended.append(name)
        problems, self._problems = tuple(self._problems), []
        return Turn(steps, begun, tuple(ended), problems, more or bool(self._waiting))

    def close(self) -> None:
        """Save the state for the next service."""
        for name, item in self._watched.items():
            try:
                item.watcher.close()
            except Exception as error:  # noqa: BLE001 - see _problem
                self._problem(name, error)

    def _discovered(self) -> Iterator[str]:
        """Yield the newly watched runs.

        If there are many, as in a new service above years of runs, only a few are opened at a time: one that has ended
        is released before another is opened, so that memory is proportional to the running ones.
        """
        self._walk()
        room = _CAUGHT_UP_WITH - sum(item.is_behind for item in self._watched.values())
        while self._waiting and room > 0:
            name = self._waiting.popleft()
            try:
                if self._begin(name):
                    room -= 1
                    yield name
            except Exception as error:  # noqa: BLE001 - see _problem
                self._problem(name, error)

    def _walk(self) -> None:
        """Search below the root, from time to time, for new runs."""
        now = self._clock.monotonic()
        if self._walked_at is not None and now - self._walked_at < DISCOVER_SECS:
            return
        try:
            names = [name for name in runs_below(self._root) if self._part.takes(name)]
        except StoreError as error:
            self._problem("", error)
            return
        finally:
            # From its end: if a search takes longer than the interval, the runs still get their turn.
            self._walked_at = self._clock.monotonic()
        for gone in self._done.keys() - set(names):
            del self._done[gone]
        again = frozenset(itertools.islice(self._done, _LOOKED_AT_AGAIN))
        self._waiting = deque(
            name for name in names if name not in self._watched and (name not in self._done or name in again)
        )

    def _begin(self, name: str) -> bool:
        known = self._done.pop(name, None)
        if known is not None:
            # To the end of the queue, whatever the result, so that the others come first.
            self._done[name] = known
        store = self._store_of(name)
        if known is not None and known == _known(store):
            return False
        watcher = self._watcher_of(name, store)
        self._done.pop(name, None)
        self._watched[name] = _Watched(watcher)
        return True

    def _let_go(self, name: str, item: _Watched) -> bool:
        """Release a run that has ended; return False if it was restarted meanwhile or cannot be read."""
        try:
            known = _known(self._store_of(name))
            if not item.watcher.poll().ended:
                return False
            item.watcher.close()
            self._verdicts[name] = _verdict(name, item.watcher, going_on=False)
        except Exception as error:  # noqa: BLE001 - see _problem
            self._problem(name, error)
            item.due = self._clock.monotonic() + DISCOVER_SECS
            return False
        del self._watched[name]
        self._done[name] = known
        return True

    def _problem(self, name: str, error: Exception) -> None:
        """Record an error of one run. Any exception is caught: a run is untrusted data and must not stop the watching
        of the others, even if its metadata files hold what no Barograph version wrote."""
        what = str(error) if isinstance(error, BarographError) else (
            f"Cannot watch this run: {type(error).__name__}: {error}. One of its files is not valid. Retrying; other "
            "runs are watched.")
        text = f"{name}: {what}" if name else what
        if text not in self._reported:
            self._reported.add(text)
            self._problems.append(text)


def _known(store: Store) -> _Known:
    return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id, len(attempts_of(store))


def _verdict(name: str, watcher: Watcher, *, going_on: bool) -> RunVerdict:
    findings = sorted(watcher.findings, key=lambda item: (
        item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity), item.since_step, item.id))
    return RunVerdict(name, going_on, watcher.steps, tuple(findings), watcher.problems, watcher.damage,
                      watcher.found)
