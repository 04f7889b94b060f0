"""Time as an object that is passed in, so that no test sleeps."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What Barograph asks of time."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean anything."""
        ...

    def unix(self) -> float:
        """Return seconds since 1970 UTC; may jump."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def unix(self) -> float:
        """Return `time.time()`."""
        return time.time()


class ManualClock:
    """A clock that moves when it is told to.

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
        """Return the seconds it was advanced by."""
        return self._monotonic

    def unix(self) -> float:
        """Return the wall time it was set to."""
        return self._unix

    def advance(self, secs: float) -> None:
        """Let `secs` pass on both faces."""
        self._monotonic += secs
        self._unix += secs

    def jump(self, secs: float) -> None:
        """Set the wall clock forward or back; the monotonic one does not move."""
        self._unix += secs
