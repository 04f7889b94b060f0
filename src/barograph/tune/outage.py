"""How long a study waits for a cluster or a store that takes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from barograph.errors import ClusterUnavailable, StoreFull, StoreUnavailable

PASSING = (ClusterUnavailable, StoreFull, StoreUnavailable)
"""Errors after which the same may succeed later."""
_OUTAGE_SECS = 600.0


class Outage:
    """Tolerates that a cluster is unreachable, or a store unreachable or full, for ten minutes.

    Args:
        clock: Monotonic clock in seconds.
        say: Takes a line when an outage begins.
    """

    def __init__(self, clock: Callable[[], float], *, say: Callable[[str], object] = lambda text: None) -> None:
        self._clock, self._say = clock, say
        self.reason, self._since = "", 0.0
        """Why a store or the cluster takes nothing now, and since when; "" if nothing failed."""

    @contextlib.contextmanager
    def tolerated(self) -> Iterator[None]:
        """Suppress a passing error of what is tried again and again, unless the outage has lasted ten minutes."""
        try:
            yield
        except PASSING as error:
            if not self.reason:
                self._since = self._clock()
                self._say(f"{error} Trying again.")
            self.reason = str(error)
            if self._clock() - self._since >= _OUTAGE_SECS:
                raise
        else:
            self.reason = ""
