"""Vital signs of a run as views for rules: silence, dropped steps, and how the run ended.

Records show what happens, not that nothing happens. So the watcher makes views of kind VITAL:

- `silence_secs`: time since the last step of a group of workers. For a finished run it comes from the times of the
  steps, live from the watcher's clock and the step counts of the heartbeats. 0 when a step comes again.
- `waiting_secs`: time a group has waited for its first step since the start of the attempt.
- `dropped_steps`: recorded steps that were dropped because the store was too slow.
- `failed[REASON]`, `killed`: 1, once the run has ended that way.

Silence is reported from a minute on: live as it grows, for a finished run once with its full length, so a rule that
compares it with a threshold finds the same in both. Its step is the last one that was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.clock import Clock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Worker
from barograph.model.step import Step
from barograph.runs.format.layout import ENDINGS, MANIFEST, metadata_name
from barograph.runs.format.metadata import ending_from_bytes, manifest_from_bytes
from barograph.runs.reading.view import StepView, group_of
from barograph.runs.state.claim import attempts_of, workers_of
from barograph.runs.state.process import is_alive, process_of
from barograph.runs.state.vitals import heartbeat_of
from barograph.store.base import Store

LEAST_SILENCE_SECS = 60.0
"""Shorter silence is normal: an evaluation, a checkpoint, a slow data loader."""

LOOK_SECS = 10.0
"""Seconds between two reads of heartbeats while no steps arrive; each is a request to the store."""

SILENCE, WAITING = Key(Kind.VITAL, "silence_secs"), Key(Kind.VITAL, "waiting_secs")
DROPPED, KILLED = Key(Kind.VITAL, "dropped_steps"), Key(Kind.VITAL, "killed")

_REASON_LENGTH = 300

_NO_SIGN = frozenset({Kind.MACHINE})
"""Kinds recorded by other processes than the training, which continue while the training hangs."""


@dataclass(slots=True)
class _Group:
    """State of one group of workers in its newest attempt.

    Attributes:
        attempt: Number of the attempt.
        number: Number of its last step; -1: none yet.
        time_unix: Time of that step by its own clock; without a step, the start of the attempt.
        reported_secs: Silence or waiting reported since; 0: none.
        dropped: Number of dropped steps reported.
    """

    attempt: int
    number: int = -1
    time_unix: float = 0.0
    reported_secs: float = 0.0
    dropped: int = 0


@dataclass(slots=True)
class _Look:
    """Observations of a group by the watcher's own clock, which another watcher cannot reuse."""

    step: int
    since: float


class Pulse:
    """Makes the vital views of one run.

    Args:
        store: Store of the run.
        clock: The watcher's clock.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._groups: dict[str, _Group] = {}
        self._looks: dict[str, _Look] = {}
        self._looked_at = clock.monotonic()
        self._begun_unix = 0.0
        self._ends_reported: list[str] = []

    def before(self, view: StepView) -> Iterator[StepView]:
        """Yield views about the time before a step.

        Args:
            view: The next step to evaluate.
        """
        if view.kinds <= _NO_SIGN:
            return
        self._looks.pop(view.group, None)
        known = self._groups.get(view.group)
        if known is None or view.attempt > known.attempt:
            known = self._groups[view.group] = _Group(view.attempt, time_unix=self._begin_of(view.attempt))
        time_unix = view.step.time_unix
        silent_secs = time_unix - known.time_unix if known.time_unix and time_unix else 0.0
        if silent_secs >= LEAST_SILENCE_SECS:
            yield self._silence(view.group, known, silent_secs)
        if known.reported_secs:
            known.reported_secs = 0.0
            yield _view(view.group, known, {SILENCE if known.number >= 0 else WAITING: 0.0}, view.step.number)
        known.number, known.time_unix = max(known.number, view.step.number), time_unix or known.time_unix

    def now(self) -> Iterator[StepView]:
        """Yield views of a running run that has no new steps.

        Raises:
            StoreError: The store cannot be read now.
        """
        if self._clock.monotonic() - self._looked_at < LOOK_SECS:
            return
        self._looked_at = self._clock.monotonic()
        attempt = max(attempts_of(self._store), default=0)
        for group, workers in _grouped(workers_of(self._store, attempt)):
            yield from self._look_at(group, attempt, workers)

    def at_end(self) -> Iterator[StepView]:
        """Yield how the workers of the newest attempt ended, each once.

        Raises:
            StoreError: The store cannot be read now.
        """
        attempt = max(attempts_of(self._store), default=0)
        for group, workers in _grouped(workers_of(self._store, attempt)):
            known = self._known(group, attempt)
            news = [worker for worker in workers if f"{attempt}/{worker.name}" not in self._ends_reported]
            if news:
                yield from self._dropped(group, known, workers)
            for worker in news:
                self._ends_reported.append(f"{attempt}/{worker.name}")
                found = self._end_of(worker)
                if found is not None:
                    yield _view(group, known, {found: 1.0})

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON data."""
        return {"ends_told": self._ends_reported, "groups": {name: asdict(it) for name, it in self._groups.items()}}

    def load(self, data: Mapping[str, Any]) -> None:
        """Load what `to_json` returned."""
        self._ends_reported = list(data["ends_told"])
        self._groups = {name: _Group(**saved) for name, saved in data["groups"].items()}

    def _known(self, group: str, attempt: int) -> _Group:
        known = self._groups.get(group)
        if known is None or known.attempt < attempt:
            known = self._groups[group] = _Group(attempt, time_unix=self._begin_of(attempt))
        return known

    def _begin_of(self, attempt: int) -> float:
        """Return the start of an attempt; 0 for an earlier attempt whose start is unknown."""
        if attempt > 0:
            return 0.0
        if not self._begun_unix:
            self._begun_unix = manifest_from_bytes(self._store.get(MANIFEST), MANIFEST).created_unix
        return self._begun_unix

    def _look_at(self, group: str, attempt: int, workers: list[Worker]) -> Iterator[StepView]:
        known = self._known(group, attempt)
        yield from self._dropped(group, known, workers)
        beats = [beat for worker in workers if (beat := heartbeat_of(self._store, worker))]
        step = max((beat.step for beat in beats), default=0)
        look = self._looks.get(group)
        if look is None or look.step != step:
            self._looks[group] = _Look(step, self._clock.monotonic())
            if look is not None and known.reported_secs:
                # Steps without records are signs of life, too.
                known.reported_secs = 0.0
                yield _view(group, known, {SILENCE if known.number >= 0 else WAITING: 0.0}, step)
            return
        silent_secs = self._clock.monotonic() - look.since
        if silent_secs >= LEAST_SILENCE_SECS and any(self._end_of(worker) is None for worker in workers):
            yield self._silence(group, known, silent_secs)

    def _silence(self, group: str, known: _Group, secs: float) -> StepView:
        known.reported_secs = max(secs, known.reported_secs)
        return _view(group, known, {SILENCE if known.number >= 0 else WAITING: known.reported_secs})

    def _dropped(self, group: str, known: _Group, workers: list[Worker]) -> Iterator[StepView]:
        beats = [self._last_beat(worker) for worker in workers]
        dropped = sum(beat.dropped_steps for beat in beats if beat)
        if dropped > known.dropped:
            known.dropped = dropped
            yield _view(group, known, {DROPPED: float(dropped)})

    def _last_beat(self, worker: Worker) -> Any:
        ending = self._ending(worker)
        return ending.last if ending else heartbeat_of(self._store, worker)

    def _end_of(self, worker: Worker) -> Key | None:
        """Return the key for how a worker ended; None if it runs or ended normally."""
        ending = self._ending(worker)
        if ending is None:
            return KILLED if is_alive(process_of(worker)) is False else None
        if ending.state is not EndState.FAILED:
            return None
        reason = " ".join(ending.reason.split())[:_REASON_LENGTH]
        return Key(Kind.VITAL, f"failed[{reason}]")

    def _ending(self, worker: Worker) -> Any:
        name = metadata_name(ENDINGS, worker.name, worker.attempt)
        try:
            return ending_from_bytes(self._store.get(name), name)[0]
        except (ObjectNotFound, DamagedChunk):
            return None


def _view(group: str, known: _Group, scalars: dict[Key, float], number: int | None = None) -> StepView:
    step = Step(tick=0, number=max(0, known.number if number is None else number), time_unix=known.time_unix)
    first = f"{group}0" if group == "r" else group
    return StepView.of(step, workers={first: scalars}, group=group, attempt=known.attempt)


def _grouped(workers: Iterable[Worker]) -> Iterator[tuple[str, list[Worker]]]:
    groups: dict[str, list[Worker]] = {}
    for worker in workers:
        groups.setdefault(group_of(worker.name), []).append(worker)
    yield from sorted(groups.items())
