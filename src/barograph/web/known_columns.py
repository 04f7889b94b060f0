"""The columns of long lists of runs, computed once for the requests of some seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from barograph.experiments.run_columns import RunColumn, fact_columns_in, recorded_columns_in
from barograph.model.clock import Clock

FRESH_SECS = 5.0
_MANY = 1000
"""Number of runs from which on the columns take longer than a page of rows."""
_MOST = 4


class KnownColumns:
    """Columns by root and runs, in any order. Requests that come together wait for the first.

    Args:
        clock: Decides when they are read again.
    """

    def __init__(self, clock: Clock) -> None:
        self._facts, self._recorded = _Known(clock, fact_columns_in), _Known(clock, recorded_columns_in)

    def of(self, root: int, connection: Any, ids: Sequence[int]) -> list[RunColumn]:
        """Return the columns of runs, of many possibly as they were a few seconds ago.

        Args:
            root: Number of their root.
            connection: Connection to its catalog.
            ids: Row numbers of the runs.
        """
        return [*self._facts.of(root, connection, ids), *self._recorded.of(root, connection, ids)]

    def recorded(self, root: int, connection: Any, ids: Sequence[int]) -> list[RunColumn]:
        """Return the columns that `usual_columns` chooses from, which take half of the time; arguments as `of`."""
        return self._recorded.of(root, connection, ids)


class _Known:
    def __init__(self, clock: Clock, read: Callable[[Any, Sequence[int]], list[RunColumn]]) -> None:
        self._clock, self._read = clock, read
        self._lock = threading.Lock()
        self._known: dict[tuple[int, frozenset[int]], tuple[float, list[RunColumn]]] = {}

    def of(self, root: int, connection: Any, ids: Sequence[int]) -> list[RunColumn]:
        if len(ids) < _MANY:
            return self._read(connection, ids)
        key = root, frozenset(ids)
        with self._lock:
            now = self._clock.monotonic()
            self._known = {of: item for of, item in self._known.items() if now - item[0] < FRESH_SECS}
            if key not in self._known:
                if len(self._known) == _MOST:
                    del self._known[next(iter(self._known))]
                self._known[key] = now, self._read(connection, ids)
            return self._known[key][1]
