"""Where the time of a run's steps goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.time_of_steps import time_of_steps

_WORDS = {"data": "waiting for data", "capture": "Barograph"}


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of a step.

    Attributes:
        name: In words, such as "waiting for data".
        secs: Mean seconds.
        share: Share of the step.
    """

    name: str
    secs: float
    share: float


@dataclass(frozen=True, slots=True)
class TimeOfSteps:
    """Mean time of a step and of its parts.

    Attributes:
        secs: Mean seconds of a step, under "step", and of its parts; empty if none was recorded.
    """

    secs: Mapping[str, float]

    @property
    def step_secs(self) -> float:
        """Mean seconds of a step; 0 if none was recorded."""
        return self.secs.get("step", 0.0)

    @property
    def parts(self) -> list[TimePart]:
        """The parts that took time, largest first.

        Example:
            >>> [part.name for part in TimeOfSteps({"step": 0.2, "data": 0.05, "backward": 0.1, "other": 0.0}).parts]
            ['backward', 'waiting for data']
        """
        whole = self.step_secs
        parts = sorted(((secs, name) for name, secs in self.secs.items() if name != "step"), key=lambda item: -item[0])
        return [TimePart(_WORDS.get(name, name), secs, secs / whole) for secs, name in parts if secs > 0 and whole]

    def to_json(self) -> dict[str, float]:
        """Return it as JSON data."""
        return dict(self.secs)


def step_time_of(run: RunReader) -> TimeOfSteps:
    """Return where the time of the steps of a run went.

    Raises:
        StoreError: The store cannot be read.
    """
    return TimeOfSteps(time_of_steps(run))
