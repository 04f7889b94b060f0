"""Waiting for a store that is unreachable or full for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from barograph.errors import StoreFull, StoreUnavailable

_MOST_SECS = 600.0
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.2, 10.0

_T = TypeVar("_T")


class Patience:
    """Does things at a store, and again while it is unreachable or full: ten minutes at most.

    Args:
        wait: Lets some seconds pass.
        clock: Seconds that never go back.
    """

    def __init__(
        self, wait: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wait, self._clock = wait, clock

    def __call__(
        self, do: Callable[[], _T], *, check: Callable[[], object] = lambda: None, waits_for_room: bool = True,
        most_unreachable_secs: float = _MOST_SECS,
    ) -> _T:
        """Return what `do` returns.

        Args:
            do: What to do. It may be done twice.
            check: Called before each pause; ends the waiting if it raises.
            waits_for_room: Also wait for a store that is full.
            most_unreachable_secs: How long the store may be unreachable.

        Raises:
            StoreError: The store was unreachable all the time, or it fails otherwise.
        """
        began, pause = self._clock(), _FIRST_PAUSE_SECS
        while True:
            try:
                return do()
            except StoreUnavailable:
                if self._clock() - began >= most_unreachable_secs:
                    raise
            except StoreFull:
                if not waits_for_room or self._clock() - began >= _MOST_SECS:
                    raise
            check()
            self._wait(pause)
            pause = min(_LONGEST_PAUSE_SECS, 2 * pause)
