"""Many runs watched as one: every run below a root, those that are there and those that come.

Each run has its own watcher, which keeps its own state in the run, so a service that is killed and begun again goes
on where it was. A run that has ended and was judged is let go of, and costs a look at its name now and then: what a
turn costs is in proportion to what has come, not to all there ever was.
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
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.reading.glance import runs_below
from barograph.runs.state.claim import attempts_of
from barograph.store.base import Store
from barograph.watch.loop import Watcher

DISCOVER_SECS = 10.0
"""Seconds between two searches of the root for new runs."""

IDLE_SECS = 5.0
"""A run from which nothing came at the last turn is asked again after so long; one that is busy at every turn."""

_CAUGHT_UP_WITH = 16
"""Most runs that are opened and not judged up to now at a time."""

_LOOKED_AT_AGAIN = 20
"""Runs that were let go of and are looked at once more at each walk: a run that was killed may be resumed."""

_Known = tuple[str, int]
"""The run that was let go of, by its id, and how many attempts it had: a name may be used again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which of the runs one of several services watches: those whose name falls to it.

    Attributes:
        number: Which, from 0.
        of: How many there are.
    """

    number: int = 0
    of: int = 1

    def takes(self, name: str) -> bool:
        """Return whether a run is this part's; every run is exactly one's.

        Example:
            >>> [Part(number, 3).takes("runs/first") for number in range(3)].count(True)
            1
        """
        return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % self.of == self.number


@dataclass(slots=True)
class _Watched:
    """A run that is watched.

    Attributes:
        watcher: At work on it.
        due: When it is asked next, by the clock.
        is_behind: There is more to judge at once than was asked for so far.
    """

    watcher: Watcher
    due: float = 0.0
    is_behind: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """Result of one turn.

    Attributes:
        steps: Steps judged, over all runs.
        begun: Names of the runs that are watched from now on.
        ended: Names of those that have ended and were judged to their end.
        problems: What could not be read or watched, a sentence each, as it was met.
        more: There is more to judge at once.
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
        name: Below the root.
        going_on: It is still watched.
        steps: Judged.
        findings: All of them, open ones first, then the worst.
        problems: What went wrong with the watching, a sentence each.
        damage: Those of them that say what could not be read.
    """

    name: str
    going_on: bool
    steps: int
    findings: tuple[Finding, ...] = field(default=())
    problems: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()


class Service:
    """Watches every run below a root.

    Args:
        root: The store that the runs lie in.
        store_of: Opens the store of the run of that name.
        watcher_of: Makes a watcher for a run: its rules, its notifiers.
        part: Which of the runs.
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
        self._told: set[str] = set()

    @property
    def going_on(self) -> int:
        """Number of runs being watched."""
        return len(self._watched)

    def verdicts(self) -> Iterator[RunVerdict]:
        """Yield what is known of each run that was watched, by name."""
        now = {name: _verdict(name, item.watcher, going_on=True) for name, item in self._watched.items()}
        yield from (verdict for _, verdict in sorted({**self._verdicts, **now}.items()))

    def poll(self) -> Turn:
        """Look for runs that have come, and judge what has come of each.

        A run that cannot be watched is named once and tried again; the others go on. Nothing is raised.
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
        """Save what the next service goes on from."""
        for name, item in self._watched.items():
            try:
                item.watcher.close()
            except Exception as error:  # noqa: BLE001 - see _problem
                self._problem(name, error)

    def _discovered(self) -> Iterator[str]:
        """Yield the runs that are watched from now on.

        Of many at once, as where a service begins above years of runs, few are caught up with at a time: one that has
        ended is let go of before another is opened, so that memory is in proportion to what goes on.
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
        """Look below the root, now and then, for runs that wait to be watched."""
        now = self._clock.monotonic()
        if self._walked_at is not None and now - self._walked_at < DISCOVER_SECS:
            return
        try:
            names = [name for name in runs_below(self._root) if self._part.takes(name)]
        except StoreError as error:
            self._problem("", error)
            return
        finally:
            # From its end: where a walk takes longer than the time between two, the runs have their turn all the same.
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
            # To the end of the line, whatever comes of it: the others are looked at before it is again.
            self._done[name] = known
        store = self._store_of(name)
        if known is not None and known == _known(store):
            return False
        watcher = self._watcher_of(name, store)
        self._done.pop(name, None)
        self._watched[name] = _Watched(watcher)
        return True

    def _let_go(self, name: str, item: _Watched) -> bool:
        """Let go of a run that has ended; return False where it was started again meanwhile, or cannot be asked."""
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
        """Note what one run did to us. Whatever that is: a run is data from anybody, and must not end the watching of
        the others, though its metadata files hold what no version of ours has written."""
        what = str(error) if isinstance(error, BarographError) else (
            f"Cannot watch this run: {type(error).__name__}: {error}. One of its files is not valid. Retrying; other "
            "runs are watched.")
        text = f"{name}: {what}" if name else what
        if text not in self._told:
            self._told.add(text)
            self._problems.append(text)


def _known(store: Store) -> _Known:
    return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id, len(attempts_of(store))


def _verdict(name: str, watcher: Watcher, *, going_on: bool) -> RunVerdict:
    findings = sorted(watcher.findings, key=lambda item: (
        item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity), item.since_step, item.id))
    return RunVerdict(name, going_on, watcher.steps, tuple(findings), watcher.problems, watcher.damage)
