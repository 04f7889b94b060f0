"""Idle timeout of a studio that a training started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barograph.errors import StoreError
from barograph.model.clock import Clock, SystemClock
from barograph.queries.run_list import runs_in
from barograph.runs.reading.glance import RunState
from barograph.web.places import Places

IDLE_SECS = 30 * 60.0
"""A page asks more often, also in a hidden tab."""


class Idle:
    """Counts the time since the last request.

    Args:
        is_busy: Whether a training still runs; called whenever the idle time has passed.
        clock: The clock.
    """

    def __init__(self, is_busy: Callable[[], bool], *, clock: Clock | None = None) -> None:
        self._is_busy = is_busy
        self._clock = clock or SystemClock()
        self._since = self._clock.monotonic()

    def asked(self) -> None:
        """Record a request."""
        self._since = self._clock.monotonic()

    def is_over(self) -> bool:
        """Return whether the studio can end."""
        if self._clock.monotonic() - self._since < IDLE_SECS:
            return False
        if self._is_busy():
            self.asked()
            return False
        return True

    def watching(self, app: Any) -> Any:
        """Return middleware that records each request."""

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            self.asked()
            await app(scope, receive, send)

        return watched


def is_any_running(places: Places) -> bool:
    """Return whether a run below the roots is being recorded; False if that cannot be read."""
    for root in places.roots:
        try:
            if any(row.state in (RunState.RUNNING, RunState.STARTING) for row in runs_in(root.store, root.place)):
                return True
        except StoreError:
            continue
    return False
