"""A run that a program writes by itself: numbers, parameters, artifacts and notes, without a training to listen to."""

from __future__ import annotations

import atexit
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from barograph.errors import SessionClosed, SettingsError
from barograph.experiments.artifacts import root_of
from barograph.experiments.checking import refuse_senseless
from barograph.experiments.exhibiting import Exhibiting
from barograph.experiments.shown import links_in_journal
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import (
    ArtifactLink,
    Entry,
    Relation,
    Verb,
    checked_name,
    checked_number,
    checked_tags,
    relation_from,
)
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.claim import attempts_of, begin_attempt, claim_worker
from barograph.runs.glance import RunState, glance
from barograph.runs.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.layout import MANIFEST
from barograph.runs.papers import manifest_from_bytes
from barograph.runs.writer import RunWriter
from barograph.store.base import Store

# Mode("train") takes as long as all the rest of logging a number.
_MODES: Mapping[str, Mode] = {mode.value: mode for mode in Mode}

_OVER = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.KILLED, RunState.EMPTY)


class Related(Protocol):
    """What a run can have come of: a run under way, or what `Experiment.load`, `list_runs` and the like return."""

    @property
    def uid(self) -> str:
        """Its identity."""
        ...


class TrackedRun(Exhibiting[None]):
    """A run under way, as one of the processes that write it. Use it in a `with` statement, or close it.

    Numbers are published by a thread; everything else at once. Any number of processes may write one run, and a process
    any number of runs.

    Args:
        store: Where the run is; it must exist.
        attempt: Which life of it is written.
        clock: Time.
    """

    def __init__(self, store: Store, attempt: int, *, clock: Clock | None = None) -> None:
        self.store = store
        self.manifest: Manifest = manifest_from_bytes(store.get(MANIFEST), MANIFEST)
        self._clock = clock or SystemClock()
        self._settings = Settings(to=store.url, machine_hz=0.0)
        self._worker = claim_worker(store, attempt=attempt, clock=self._clock)
        self._journal = Journal(store, JOURNAL_OF_RUN)
        self._steps: dict[tuple[str, str], int] = {}
        self._last_step = 0
        self._writer: RunWriter | None = RunWriter(store, self._worker, settings=self._settings, status=self._status,
                                                   clock=self._clock)
        self._log = self._writer.log
        atexit.register(self._close_at_exit)

    def _repr_html_(self) -> str:
        # What reads and draws is loaded for notebooks alone: a program that writes a run need not wait for it.
        from barograph.report.notebook import run_html
        from barograph.runs.reader import open as open_run

        return run_html(open_run(self.url), exhibits=self.exhibits())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.url!r})"

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.manifest.name

    @property
    def uid(self) -> str:
        """Its identity."""
        return self.manifest.run_id

    @property
    def url(self) -> str:
        """Where it is; what `barograph show` and `barograph.open` take."""
        return self.store.url

    def log_metric(
        self, name: str, value: float, step: int | None = None, *, mode: str = "train", time_unix: float | None = None
    ) -> None:
        """Record a number of a series.

        Args:
            name: Of the series.
            value: The number; NaN and infinities are kept.
            step: It belongs to; None: the next one of this series, from 0.
            mode: "train", "eval" or "predict".
            time_unix: When, seconds since 1970 UTC; None: now.

        Raises:
            SessionClosed: The run has been closed.
            SettingsError: The value is no number, or there is no such mode.
        """
        if self._writer is None:
            raise self._closed()
        series = name, mode
        last = self._steps.get(series)
        if last is None:
            _check_series(name, mode)
            last = -1
        if step is None:
            step = last + 1
        try:
            self._log(name, value, step, _MODES[mode], time.time() if time_unix is None else time_unix)
        except (TypeError, ValueError, OverflowError, struct.error):
            value, step = checked_number(name, value), _checked_step(name, step)
            self._log(name, value, step, _MODES[mode], time.time() if time_unix is None else time_unix)
        self._steps[series] = step
        if step > self._last_step:
            self._last_step = step

    def log_metrics(self, values: Mapping[str, float], step: int | None = None, *, mode: str = "train") -> None:
        """Record several numbers of one step; arguments and errors as of `log_metric`."""
        for name, value in values.items():
            self.log_metric(name, value, step, mode=mode)

    def tag(self, **tags: str | None) -> None:
        """Give it tags; None takes one away."""
        self._tell(Verb.TAG, checked_tags(tags))

    def note(self, text: str) -> None:
        """Say something of it, in Markdown."""
        self._tell(Verb.NOTE, {"text": str(text)})

    def relate(self, relation: Relation | str, other: Related) -> None:
        """Say that it came of another run, component or artifact; relations and errors as of `Component.relate`."""
        self._tell(Verb.RELATE, {"relation": str(relation_from(relation)), "target": other.uid})

    def close(self, state: str = "finished", reason: str = "") -> None:
        """End it: everything is published. Later calls do nothing.

        Args:
            state: "finished", "failed" or "stopped".
            reason: Why, for people.

        Raises:
            SettingsError: There is no such state; the run goes on.
        """
        if state not in tuple(EndState):
            raise SettingsError(f'"{state}" is no way to end; there are {", ".join(EndState)}.')
        writer, self._writer = self._writer, None
        if writer is None:
            return
        atexit.unregister(self._close_at_exit)
        closing = writer.close(EndState(state), reason)
        for problem in closing.problems:
            print(f"barograph: {problem} ({self.url})", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
        else:
            self._close_failed(error)

    def _close_at_exit(self) -> None:
        # What ended the script; where somebody types, one that was shown long ago.
        error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        if error is None:
            self.close()
        else:
            self._close_failed(error)

    def _close_failed(self, error: BaseException) -> None:
        self.close("failed", f"{type(error).__name__}: {error}".rstrip(": "))

    @property
    def _root(self) -> Store:
        return root_of(self.store)

    @property
    def _artifact_clock(self) -> Clock:
        return self._clock

    def _links(self) -> Sequence[ArtifactLink]:
        return links_in_journal(self.store, self.uid)

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> None:
        if self._writer is None:
            raise self._closed()
        if data:
            entry = Entry(self.uid, verb, data, self._clock.unix())
            refuse_senseless([entry])
            self._journal.write([entry])

    def _status(self) -> Heartbeat:
        return Heartbeat(0, self._clock.unix(), step=self._last_step)

    def _closed(self) -> SessionClosed:
        return SessionClosed(f"This run is closed; it records nothing more ({self.url}).")


def _check_series(name: object, mode: str) -> None:
    checked_name("a metric", name)
    if mode not in tuple(Mode):
        raise SettingsError(f'"{mode}" is no mode; there are {", ".join(Mode)}.')


def _checked_step(name: str, step: Any) -> int:
    """Return a step that is a number of another kind than Python's own."""
    try:
        whole = int(step)
        if whole == step and abs(whole) < 2**63:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    raise SettingsError(f'Metric "{name}" is told at step {step!r}; a step is a whole number of 64 bits.')


def attempt_to_join(store: Store, clock: Clock) -> int:
    """Return the attempt of a run that more is written in: the one that goes on, or a new one.

    Raises:
        StoreError: The run cannot be read, or written.
    """
    attempt = max(attempts_of(store), default=0)
    if glance(store, clock=clock).state in _OVER:
        attempt += 1
        begin_attempt(store, attempt, started_unix=clock.unix())
    return attempt
