"""A cache of open runs: a page with a hundred charts reads the files of a run once."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from barograph.errors import NotARun
from barograph.model.clock import Clock, SystemClock
from barograph.runs.reading.reader import RunReader
from barograph.web.kept_open import KeptOpen
from barograph.web.places import Places

_MOST_OPEN = 64
_FRESH_SECS = 0.3


@dataclass(slots=True)
class _Open:
    run: RunReader
    read_at: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class OpenRuns:
    """Opens runs by their keys and caches the latest ones.

    Args:
        places: Where runs are.
        clock: Decides when a run is read again.
    """

    def __init__(self, places: Places, *, clock: Clock | None = None) -> None:
        self._places = places
        self._clock = clock or SystemClock()
        self._open = KeptOpen[_Open](_MOST_OPEN)

    def has_changed(self, key: str) -> None:
        """Mark a run as changed: the next request reads it again."""
        opened = self._open.known(key)
        if opened is not None:
            opened.read_at = -math.inf

    @contextmanager
    def run(self, key: str) -> Iterator[RunReader]:
        """Yield the reader of a run, up to date, locked for this thread.

        Raises:
            UnknownName, NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be opened.
        """
        try:
            store = self._places.store_of(key)
        except NotARun:
            # Its directory was removed while a page shows it. Another run may come to the same place.
            self._open.drop(key)
            raise
        opened = self._open.opened(key, lambda: _Open(RunReader(store), self._clock.monotonic()))
        with opened.lock:
            if self._clock.monotonic() - opened.read_at > _FRESH_SECS:
                opened.read_at = self._clock.monotonic()  # before: a change meanwhile is read by the next
                opened.run.refresh()
            yield opened.run
