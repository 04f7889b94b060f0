"""Polls a source in a thread, so that a slow network never blocks an agent."""

from __future__ import annotations

import threading
from collections.abc import Callable

from barograph.jobs.interruptions.notice import InterruptionSource, Notice


class BackgroundSource:
    """An interruption source that is polled in a daemon thread; `poll` returns at once what the thread saw last.

    Args:
        source: What is polled.
        is_disabled: Whether the source has disabled itself; the thread ends then.
    """

    interval_secs = 0.1

    def __init__(self, source: InterruptionSource, is_disabled: Callable[[], bool] = lambda: False) -> None:
        self.source, self._is_disabled = source, is_disabled
        self.name = source.name
        self._latest: Notice | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self) -> Notice | None:
        """Return the notice that the thread saw last, None if it saw none. Never raises."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name=f"notices of {self.name}", daemon=True)
            self._thread.start()
        return self._latest

    def close(self) -> None:
        """End the thread after its current poll, and wait for it."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while True:
            self._latest = self.source.poll()
            if self._is_disabled() or self._closed.wait(self.source.interval_secs):
                return
