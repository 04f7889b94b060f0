"""State of a run from its metadata files, without reading its records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan

from barograph.errors import DamagedChunk, NewerFormat, ObjectNotFound, StoreDenied, StoreError
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import Finding
from barograph.model.manifest import Manifest
from barograph.runs.format.layout import FOLDERS, JOURNAL, MANIFEST, ORIGIN, WATCH
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.reading.roster import Roster, Standing, WorkerState
from barograph.runs.state.claim import claimer_of
from barograph.runs.state.findings import read_findings
from barograph.runs.state.origins import read_untrained
from barograph.runs.state.process import is_alive, this_process
from barograph.runs.state.survey import surveyed
from barograph.store.base import Browsable, Level, ObjectInfo, Store

DEPTH = 6
"""Depth of the search for runs: enough for a tree of experiments, and limited in a home directory."""

_LOOKS = 3
_LOOK_AGAIN_SECS = 0.8
_THREADS = 8


class RunState(StrEnum):
    """State of a run, from the workers of its newest attempt."""

    STARTING = "starting"
    """It has no worker yet, and the process that began it is alive."""
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    """A finding stopped it."""
    FAILED = "failed"
    KILLED = "killed"
    """A worker was killed: it has no ending."""
    UNKNOWN = "unknown"
    """Its workers are on another machine and sent no heartbeat while watched; or it cannot be read."""
    EMPTY = "empty"
    """No process trained."""
    DAMAGED = "damaged"
    """Its manifest cannot be read."""


_WORST_FIRST = (
    (Standing.RUNNING, RunState.RUNNING), (Standing.UNKNOWN, RunState.UNKNOWN), (Standing.KILLED, RunState.KILLED),
    (Standing.FAILED, RunState.FAILED), (Standing.STOPPED, RunState.STOPPED), (Standing.FINISHED, RunState.FINISHED),
)
"""The first of these states of any worker is that of the run: it is running as long as one worker is."""


@dataclass(frozen=True, slots=True)
class Glance:
    """State of a run.

    Attributes:
        url: URL of the run.
        state: Its state.
        manifest: Its manifest; None if unreadable.
        workers: Workers of all attempts.
        attempt: The newest attempt.
        steps: Steps of all optimizers in it, of the worker with the most, as in the summary.
        loss: Its last loss; None if there is none.
        cost: Largest share of the training time that capture took in a worker; NaN if unknown, or if the training is
            too short for a share.
        ended_unix: Time of the last heartbeat or ending, by the worker's clock; NaN if there is none.
        watched: Whether a watcher has evaluated it.
        covered: Whether everything was recorded, as far as its workers know.
        findings: Its findings.
        journal: Number of metadata files with provenance and journal entries, and the time of the last of
            them.
        problems: What could not be read.
    """

    url: str
    state: RunState
    manifest: Manifest | None = None
    workers: Sequence[WorkerState] = ()
    attempt: int = 0
    steps: int = 0
    loss: float | None = None
    cost: float = nan
    ended_unix: float = nan
    watched: bool = False
    covered: bool = False
    findings: Sequence[Finding] = ()
    journal: tuple[int, float] = (0, 0.0)
    problems: Sequence[str] = field(default=())

    @property
    def newest_workers(self) -> Sequence[WorkerState]:
        """The workers of the newest attempt."""
        return [item for item in self.workers if item.worker.attempt == self.attempt]


def runs_below(store: Store, *, on_denied: Callable[[str], object] = lambda folder: None) -> list[str]:
    """Return the folders of runs in `store`; "" for the store itself.

    At most `DEPTH` folders deep, and not in hidden ones. If the store can be listed folder by folder, the contents of
    runs are not listed.

    Args:
        store: The store.
        on_denied: Called with each folder that this user may not read. Its contents are not in the result.

    Raises:
        StoreError: The store cannot be read.
    """
    if isinstance(store, Browsable):
        return sorted(_walked(store, on_denied))
    folders = (folder for item in store.list() if (folder := _run_of(item.name)) is not None)
    return sorted(folder for folder in folders if not folder or _is_looked_into(folder))


def _walked(store: Browsable, on_denied: Callable[[str], object]) -> Iterator[str]:
    def level_of(folder: str) -> Level:
        try:
            return store.level(folder)
        except StoreDenied:
            if not folder:
                raise
            on_denied(folder)
            return Level([], [])

    folders = [""]
    with ThreadPoolExecutor(_THREADS) as pool:
        while folders:
            below: list[str] = []
            for level in pool.map(level_of, folders):
                runs = [run for name in level.objects if (run := _run_of(name)) is not None]
                yield from runs
                own = {f"{run}/{part}".lstrip("/") for run in runs for part in FOLDERS}
                below.extend(name for name in level.folders if name not in own and _is_looked_into(name))
            folders = below


def _run_of(name: str) -> str | None:
    """Return the folder of a run from the name of its manifest; None for other names."""
    folder, _, last = name.rpartition("/")
    return folder if last == MANIFEST else None


def _is_looked_into(folder: str) -> bool:
    parts = folder.split("/")
    return len(parts) <= DEPTH and not any(part.startswith(".") for part in parts)


def glance(store: Store, *, clock: Clock | None = None, wait: Callable[[float], object] = time.sleep) -> Glance:
    """Return the state of the run in `store`.

    Args:
        store: Store of the run. Without a run, the result is damaged.
        clock: Measures how long heartbeats were watched.
        wait: Sleeps for some seconds, to watch the heartbeat of a worker on another machine.

    Raises:
        StoreError: The store cannot be read.
    """
    return _seen([_Look(store, clock or SystemClock())], _Look.take, wait)[0]


def glances(
    stores: Iterable[Store], *, clock: Clock | None = None, wait: Callable[[float], object] = time.sleep
) -> list[Glance]:
    """Return the state of each run; arguments as for `glance`. Unreadable runs are in the result, too."""
    return _seen([_Look(store, clock or SystemClock()) for store in stores], _Look.take_or_reason, wait)


def _seen(
    looks: Sequence[_Look], take: Callable[[_Look], Glance], wait: Callable[[float], object]
) -> list[Glance]:
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(take, looks))
        for _ in range(_LOOKS - 1):
            if not any(_may_still_change(item) for item in found):
                break
            wait(_LOOK_AGAIN_SECS)
            found = list(pool.map(lambda look, item: take(look) if _may_still_change(item) else item, looks, found))
    return found


def _may_still_change(seen: Glance) -> bool:
    """Return whether another poll may show an increasing heartbeat."""
    return seen.state is RunState.UNKNOWN and seen.manifest is not None


class _Look:
    """Polls one run, several times if it must watch a heartbeat."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._roster = Roster(store, clock)

    def take_or_reason(self) -> Glance:
        try:
            return self.take()
        except StoreError as error:
            return Glance(self._store.url, RunState.UNKNOWN, problems=(str(error),))

    def take(self) -> Glance:
        listing = self._store.list()
        found = surveyed(listing)
        try:
            manifest = manifest_from_bytes(self._store.get(MANIFEST), MANIFEST)
        except (DamagedChunk, NewerFormat) as error:
            return Glance(self._store.url, RunState.DAMAGED, problems=(str(error),))
        except ObjectNotFound:
            return Glance(self._store.url, RunState.DAMAGED, problems=(f"{MANIFEST} is missing.",))
        workers = self._roster.workers(found)
        attempt = max(found.attempts, default=0)
        newest = [item for item in workers if item.worker.attempt == attempt]
        last = [item.last for item in newest if item.last is not None]
        lead = max(last, key=lambda beat: beat.step, default=None)
        log = read_findings(self._store)
        return Glance(
            url=self._store.url, state=self._state(newest, attempt), manifest=manifest, workers=workers,
            attempt=attempt, steps=max((max(beat.step, beat.coverage.steps) for beat in last), default=0),
            loss=lead.loss if lead and lead.coverage.loss_seen and lead.step else None,
            cost=max((beat.cost.share for beat in last if not beat.cost.too_short), default=nan),
            ended_unix=max((beat.time_unix for beat in last), default=nan),
            watched=any(name.startswith(f"{WATCH}/") for name in found.size_bytes),
            covered=bool(last) and all(beat.coverage.complete and not beat.dropped_steps for beat in last),
            findings=log.findings, journal=_record_count(listing), problems=(*self._roster.damage, *log.damage),
        )

    def _state(self, workers: Sequence[WorkerState], attempt: int) -> RunState:
        standings = {item.standing for item in workers}
        for standing, state in _WORST_FIRST:
            if standing in standings:
                return state
        try:
            claimer = claimer_of(self._store, attempt)
        except StoreError:
            return RunState.UNKNOWN
        # The calling process does not train.
        lives = claimer is not None and claimer[0] != this_process() and is_alive(claimer[0])
        if lives:
            return RunState.STARTING
        return RunState.FAILED if _failed_before_training(self._store, attempt) else RunState.EMPTY


def _failed_before_training(store: Store, attempt: int) -> bool:
    try:
        untrained = read_untrained(store, attempt)
    except (DamagedChunk, StoreError):
        return False  # readers and the doctor report it
    return untrained is not None and bool(untrained.error)


def _record_count(listing: Iterable[ObjectInfo]) -> tuple[int, float]:
    times = [item.modified_unix for item in listing if item.name.startswith((f"{JOURNAL}/", f"{ORIGIN}/"))]
    return len(times), max(times, default=0.0)
