"""A run that a program writes itself: metrics, parameters, artifacts and notes, without a recorded training."""

from __future__ import annotations

import atexit
import struct
import sys
import time
from collections.abc import Mapping
from types import TracebackType

from barograph.experiments.active_run import ActiveRun, check_ending, check_series, checked_step
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import checked_number
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.reading.glance import RunState, glance
from barograph.runs.state.claim import attempts_of, begin_attempt, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store

# Mode("train") takes as long as the rest of logging a metric.
_MODES: Mapping[str, Mode] = {mode.value: mode for mode in Mode}

_OVER = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.KILLED, RunState.EMPTY)


class TrackedRun(ActiveRun):
    """A run, as written by one of its processes. Use it in a `with` statement, or close it.

    A thread publishes metrics; everything else is published at once. Several processes may write one run, and one
    process several runs.

    Args:
        store: Store of an existing run.
        attempt: Attempt of the run to write.
        clock: Clock.
    """

    def __init__(self, store: Store, attempt: int, *, clock: Clock | None = None) -> None:
        self._store = store
        self._known = manifest_from_bytes(store.get(MANIFEST), MANIFEST)
        self._clock = clock or SystemClock()
        self._settings = Settings(to=store.url, machine_hz=0.0)
        self._worker = claim_worker(store, attempt=attempt, clock=self._clock)
        self._steps: dict[tuple[str, str], int] = {}
        self._last_step = 0
        self._writer: RunWriter | None = RunWriter(store, self._worker, settings=self._settings, status=self._status,
                                                   clock=self._clock)
        self._log = self._writer.log
        atexit.register(self._close_at_exit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.url!r})"

    @property
    def store(self) -> Store:
        """Store of the run."""
        return self._store

    @property
    def closed(self) -> bool:
        """Whether the run is closed."""
        return self._writer is None

    def log_metric(
        self, name: str, value: float, step: int | None = None, *, mode: str = "train", time_unix: float | None = None
    ) -> None:
        if self._writer is None:
            self._check_open()
        series = name, mode
        last = self._steps.get(series)
        if last is None:
            check_series(name, mode)
            last = -1
        if step is None:
            step = last + 1
        try:
            self._log(name, value, step, _MODES[mode], time.time() if time_unix is None else time_unix)
        except (TypeError, ValueError, OverflowError, struct.error):
            value, step = checked_number(name, value), checked_step(name, step)
            self._log(name, value, step, _MODES[mode], time.time() if time_unix is None else time_unix)
        self._steps[series] = step
        if step > self._last_step:
            self._last_step = step

    def close(self, state: str = "finished", reason: str = "") -> None:
        check_ending(state)
        writer, self._writer = self._writer, None
        if writer is None:
            return
        atexit.unregister(self._close_at_exit)
        closing = writer.close(EndState(state), reason)
        for problem in closing.problems:
            print(f"barograph: {problem} ({self.url})", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
        else:
            self._close_failed(error)

    def _close_at_exit(self) -> None:
        # The exception that ended the script; in an interactive session, one that was shown long ago.
        error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        if error is None:
            self.close()
        else:
            self._close_failed(error)

    def _close_failed(self, error: BaseException) -> None:
        self.close("failed", f"{type(error).__name__}: {error}".rstrip(": "))

    def _status(self) -> Heartbeat:
        return Heartbeat(0, self._clock.unix(), step=self._last_step)


def attempt_to_join(store: Store, clock: Clock) -> int:
    """Return the attempt of a run to write: the active one, or a new one.

    Raises:
        StoreError: The run cannot be read or written.
    """
    attempt = max(attempts_of(store), default=0)
    if glance(store, clock=clock).state in _OVER:
        attempt += 1
        begin_attempt(store, attempt, started_unix=clock.unix())
    return attempt
