"""An object of a store as a seekable file that fetches only what is read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

FETCHED_BYTES = 8 * 2**20
"""Bytes of one request. A connection of 5 Mbit/s transfers them before the timeout."""


class RemoteFile(io.RawIOBase):
    """A file that fetches bytes when they are read.

    Args:
        size_bytes: Size of the object.
        fetch: Returns the bytes from a start up to an end.
    """

    def __init__(self, size_bytes: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size_bytes = size_bytes
        self._fetch = fetch
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer and return their number."""
        end = min(self._at + len(buffer), self._size_bytes)
        if end <= self._at:
            return 0
        data = self._fetch(self._at, end)
        buffer[:len(data)] = data
        self._at += len(data)
        return len(data)
