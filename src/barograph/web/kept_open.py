"""A cache of open objects, such as runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptOpen(Generic[T]):
    """An LRU cache. Thread-safe.

    Args:
        most: Capacity.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def known(self, key: str) -> T | None:
        """Return the object of a key; None if it is not cached."""
        with self._lock:
            return self._kept.get(key)

    def drop(self, key: str) -> None:
        """Forget the object of a key, if there is one."""
        with self._lock:
            self._kept.pop(key, None)

    def opened(self, key: str, make: Callable[[], T]) -> T:
        """Return the object of a key; create it if it is not cached. Concurrent calls return the same object."""
        found = self.known(key)
        if found is None:
            found = make()  # outside of the lock: it may take long
        with self._lock:
            found = self._kept.setdefault(key, found)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found
