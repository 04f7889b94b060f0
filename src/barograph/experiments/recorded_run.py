"""The run that this process is recorded in: by `barograph run`, or by `attach`."""

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
"""Of each series of a recording its last step; of all objects that stand for the run together."""


class RecordedRun(ActiveRun):
    """The run that records this process. Numbers are written by the worker that records the training.

    The recording ends with the process, or where `attach` ends; leaving a `with` block of this object does not end it.
    """

    def __init__(self, recorded: Recording) -> None:
        self._recording = recorded
        self._last_steps = _last_steps.setdefault(recorded, {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """Where the run is; what `barograph show` and `barograph.open` take."""
        return self._recording.url

    @property
    def store(self) -> Store:
        """Where it is kept."""
        return store_from_url(self.url)

    @property
    def closed(self) -> bool:
        """Whether the run records nothing more."""
        return self._recording.session.closed

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record numbers.

        Args:
            values: Name to number; a tensor of one element is read, which waits for its device. Numbers within another
                dictionary have both names, `val.accuracy`. Whatever is no number is named once, and passed over;
                None is nothing.
            step: Step they belong to; None: the number of steps made so far.

        Raises:
            SessionClosed: The run has been closed.
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
        """Record a number of a series.

        Args:
            name: Of the series.
            value: The number; NaN and infinities are kept. What is no number is warned of, and training goes on.
            step: It belongs to; None: the number of training steps made so far, or the next step of this series
                where it has that one already.
            mode: "train", "eval" or "predict".
            time_unix: When, seconds since 1970 UTC; None: now.

        Raises:
            SessionClosed: The run has been closed.
            SettingsError: A metric cannot have that name or step, or there is no such mode.
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
        """Do nothing: the recording ends with the process, which also says how it ended.

        Raises:
            SettingsError: There is no such state.
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
        except Exception as error:  # noqa: BLE001 - the guard decides; a number that is none must not end a training
            session.guard.caught(error, "logging numbers")

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> None:
        session = self._recording.session
        if session.script.passes_over:
            return  # it was said before the checkpoint that the training goes on from
        try:
            super()._tell(verb, data)
        except (SessionClosed, SettingsError):
            raise
        except Exception as error:  # noqa: BLE001 - the guard decides; a store that is away must not end a training
            session.guard.caught(error, "keeping what the script says of the run")


def recorded_run() -> RecordedRun | None:
    """Return the run that records this process; None: nothing does."""
    recording = launched() or current()
    return RecordedRun(recording) if recording is not None and not recording.session.closed else None
