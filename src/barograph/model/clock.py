"""Clocks that are passed in, so that tests do not sleep."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def monotonic(self) -> float:
        """Return seconds that never decrease; only differences are meaningful."""
        ...

    def unix(self) -> float:
        """Return seconds since 1970 UTC; may jump."""
        ...


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def unix(self) -> float:
        """Return `time.time()`."""
        return time.time()


class ManualClock:
    """A clock for tests that moves only by `advance` and `jump`.

    Example:
        >>> clock = ManualClock()
        >>> clock.advance(2.5)
        >>> clock.monotonic()
        2.5
    """

    def __init__(self, *, monotonic: float = 0.0, unix: float = 1_800_000_000.0) -> None:
        self._monotonic = monotonic
        self._unix = unix

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced."""
        return self._monotonic

    def unix(self) -> float:
        """Return its wall time."""
        return self._unix

    def advance(self, secs: float) -> None:
        """Advance both clocks by `secs`."""
        self._monotonic += secs
        self._unix += secs

    def jump(self, secs: float) -> None:
        """Move the wall clock forward or back; the monotonic clock does not change."""
        self._unix += secs
