"""Requests that are being answered, so that work that can wait lets them go first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barograph.model.clock import Clock, SystemClock

SHORT_SECS = 2.0
"""A request that takes longer, such as a download, no longer goes first."""


class InFlight:
    """Knows the requests that are being answered. Thread-safe.

    Args:
        clock: Measures how long they take.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._begun: dict[object, float] = {}
        self._changed = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request."""
        mark = object()
        with self._changed:
            self._begun[mark] = self._clock.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[mark]
                self._changed.notify_all()

    def wait(self, longest_secs: float) -> bool:
        """Wait until no short request is being answered; return whether there is none."""
        with self._changed:
            return self._changed.wait_for(self._is_quiet, longest_secs)

    def _is_quiet(self) -> bool:
        return all(self._clock.monotonic() - begun >= SHORT_SECS for begun in self._begun.values())
