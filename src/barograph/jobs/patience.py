"""Waiting for a store that is unreachable or full for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from barograph.errors import StoreFull, StoreUnavailable

_MOST_SECS = 600.0
_ADVICE = "Free some space"
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.2, 10.0

_T = TypeVar("_T")


def full_reason(error: StoreFull, otherwise: str = "") -> str:
    """Return the text of an error with advice before its details, unless it has that advice already.

    Example:
        >>> full_reason(StoreFull("The store is full. (put model in runs: no space)."))
        'The store is full. Free some space. (put model in runs: no space).'
    """
    what, bracket, details = str(error).partition(" (")
    return str(error) if _ADVICE in what else f"{what.rstrip('.')}. {_ADVICE}{otherwise}.{bracket}{details}"


class Patience:
    """Does things at a store, and again while it is unreachable or full: ten minutes at most.

    Args:
        wait: Sleeps for some seconds.
        clock: Monotonic clock in seconds.

    Attributes:
        tell: Called with the reason when a wait for a full store begins, and with "" once the store has room.
    """

    def __init__(
        self, wait: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wait, self._clock = wait, clock
        self.tell: Callable[[str], object] = lambda reason: None

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
        began, pause, is_full = self._clock(), _FIRST_PAUSE_SECS, False
        while True:
            try:
                done = do()
            except StoreUnavailable:
                if self._clock() - began >= most_unreachable_secs:
                    raise
            except StoreFull as error:
                if not waits_for_room or self._clock() - began >= _MOST_SECS:
                    raise
                is_full = True
                self.tell(full_reason(error, f"; after {_MOST_SECS / 60:g} minutes the job fails"))
            else:
                if is_full:
                    self.tell("")
                return done
            check()
            self._wait(pause)
            pause = min(_LONGEST_PAUSE_SECS, 2 * pause)
