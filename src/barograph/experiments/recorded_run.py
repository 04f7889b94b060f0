"""The run that records this process, started by `barograph run` or `attach`."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

from barograph.capture.recording import Recording, current, launched
from barograph.errors import SessionClosed, SettingsError
from barograph.experiments.active_run import ActiveRun, check_ending, check_series, checked_step
from barograph.model.items import Verb
from barograph.model.step import Mode
from barograph.store.base import Store
from barograph.store.urls import store_from_url

_last_steps: WeakKeyDictionary[Recording, dict[tuple[str, str], int]] = WeakKeyDictionary()
"""Last step of each metric of a recording, shared by all objects for the run."""


class RecordedRun(ActiveRun):
    """The run that records this process. Metrics are written by the worker that records the training.

    The recording ends with the process or with `attach`; leaving a `with` block of this object does not end it.
    """

    def __init__(self, recorded: Recording) -> None:
        self._recording = recorded
        self._last_steps = _last_steps.setdefault(recorded, {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """URL of the run, accepted by `barograph show` and `barograph.open`."""
        return self._recording.url

    @property
    def store(self) -> Store:
        """Store of the run."""
        return store_from_url(self.url)

    @property
    def closed(self) -> bool:
        """Whether the run is closed."""
        return self._recording.session.closed

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics.

        Args:
            values: Name to number. A tensor with one element is read, which waits for its device. A nested dictionary
                joins names, as in `val.accuracy`. Other values are ignored with one warning per name; None is ignored.
            step: None: the number of steps so far.

        Raises:
            SessionClosed: The run is closed.
        """
        recorded, given = self._recording, cast("object", values)
        if not isinstance(given, Mapping):
            recorded.session.guard.report(
                f"run.log expects a dictionary of names to numbers, as in run.log({{'accuracy': 0.5}}), got "
                f"{type(given).__name__}: nothing was recorded")
            return
        self._log(values, step)

    def log_metric(
        self, name: str, value: float, step: int | None = None, *, mode: str = "train", time_unix: float | None = None
    ) -> None:
        """Record one value of a metric.

        Args:
            name: Name of the metric.
            value: A number; NaN and infinities are kept. Anything else gives a warning, and training continues.
            step: None: the number of training steps so far, or the next step of this metric if it has a value there.
            mode: "train", "eval" or "predict".
            time_unix: Seconds since 1970 UTC; None: now.

        Raises:
            SessionClosed: The run is closed.
            SettingsError: The name or step is invalid, or the mode is unknown.
        """
        self._check_open()
        series = name, mode
        if series not in self._last_steps:
            check_series(name, mode)
        last = self._last_steps.get(series, -1)
        number = max(self._recording.session.counts.of_busiest, last + 1) if step is None else checked_step(name, step)
        self._log({name: value}, number, Mode(mode), time_unix)
        self._last_steps[series] = number

    def close(self, state: str = "finished", reason: str = "") -> None:
        """Do nothing: the recording ends with the process, which records how it ended.

        Raises:
            SettingsError: The state is unknown.
        """
        check_ending(state)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _log(
        self, values: Mapping[str, Any], step: int | None, mode: Mode | None = None, time_unix: float | None = None
    ) -> None:
        session = self._recording.session
        try:
            session.log(values, step, mode, time_unix)
        except SessionClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the guard decides; an invalid number must not end a training
            session.guard.caught(error, "logging numbers")

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> None:
        session = self._recording.session
        if session.script.passes_over:
            return  # recorded before the checkpoint from which the training resumes
        try:
            super()._tell(verb, data)
        except (SessionClosed, SettingsError):
            raise
        except Exception as error:  # noqa: BLE001 - the guard decides; an unreachable store must not end a training
            session.guard.caught(error, "recording what the script logs")


def recorded_run() -> RecordedRun | None:
    """Return the run that records this process; None if there is none."""
    recording = launched() or current()
    return RecordedRun(recording) if recording is not None and not recording.session.closed else None
