"""An object of a store as a file that can be wound forth and back: what is read is fetched, and nothing else."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

FETCHED_BYTES = 8 * 2**20
"""What one request asks for: as much as is read on a line of 5 Mbit/s before anybody gives up."""


class RemoteFile(io.RawIOBase):
    """Bytes that are fetched as they are read.

    Args:
        size_bytes: How many there are.
        fetch: Returns those from one place up to another.
    """

    def __init__(self, size_bytes: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size_bytes = size_bytes
        self._fetch = fetch
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Return where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Read on elsewhere; return where that is."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as fit, or as there are; return how many."""
        end = min(self._at + len(buffer), self._size_bytes)
        if end <= self._at:
            return 0
        data = self._fetch(self._at, end)
        buffer[:len(data)] = data
        self._at += len(data)
        return len(data)
