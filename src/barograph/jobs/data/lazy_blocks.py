"""Fetched parts of one object, in a sparse file that all processes of this machine share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_BLOCK_BYTES = 2**15
"""Smallest fetch."""
_SMALL_BYTES = 2**18
"""Objects up to this size are fetched as a whole."""
_PAGE_BYTES = 4096
_MOST_BYTES = 8 * 2**20
_SHARE_AHEAD = 8
"""Reading on in order fetches an eighth more than was read, so that a script that stops has fetched little in vain."""
_NEAR_BYTES = 2**19

_Fetch = Callable[[int, int], memoryview]


class BlockFile:
    """The blocks of one object that have been fetched.

    The file starts with one byte per block: 1 if the block is there. It is written after the block, and other processes
    write the same bytes, so no lock between processes is needed. The name of the file contains the boot of the machine,
    after which nothing is certain to have reached the disk.

    Args:
        path: Path of the sparse file.
        size_bytes: Size of the object, at least 1.
        fetch: Returns the bytes from a start up to an end.
    """

    def __init__(self, path: Path, size_bytes: int, fetch: _Fetch) -> None:
        self._size_bytes, self._fetch = size_bytes, fetch
        self._blocks = -(-size_bytes // _BLOCK_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._start = -(-self._blocks // _PAGE_BYTES) * _PAGE_BYTES
        self._file = os.open(path.with_name(f"{path.name}.{_boot()}"), os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._next = 0
        self._run_bytes = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def read(self, start: int, size_bytes: int) -> bytes:
        """Return bytes; fetch what is missing."""
        end = min(start + size_bytes, self._size_bytes)
        if start >= end:
            return b""
        with self._lock:
            self._follow(start, end)
            self._provide(start, end)
        return os.pread(self._file, end - start, self._start + start)

    def _follow(self, start: int, end: int) -> None:
        """Note how much was read in order."""
        in_order = abs(start - self._next) <= _NEAR_BYTES and self._run_bytes
        self._run_bytes = (self._run_bytes if in_order else 0) + end - start
        self._next = end

    def _provide(self, start: int, end: int) -> None:
        """Fetch the missing blocks of a range; if there are any, also what the script probably reads next."""
        first, last = start // _BLOCK_BYTES, -(-end // _BLOCK_BYTES)
        missing = self._missing(first, last)
        if not missing:
            return
        if self._size_bytes <= _SMALL_BYTES:
            missing = self._missing(0, self._blocks)
        else:
            ahead = min(self._run_bytes // _SHARE_AHEAD, _MOST_BYTES) // _BLOCK_BYTES
            missing += self._missing(last, min(self._blocks, missing[0] + ahead))
        for begin, until in _runs(missing, _MOST_BYTES // _BLOCK_BYTES):
            data = self._fetch(begin * _BLOCK_BYTES, min(until * _BLOCK_BYTES, self._size_bytes))
            _write(self._file, data, self._start + begin * _BLOCK_BYTES)
            _write(self._file, memoryview(b"\1" * (until - begin)), begin)

    def _missing(self, first: int, last: int) -> list[int]:
        count = max(0, last - first)
        present = os.pread(self._file, count, first).ljust(count, b"\0")
        return [first + at for at, flag in enumerate(present) if not flag]


def _runs(numbers: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the runs of consecutive numbers, each of at most `most`.

    Example:
        >>> list(_runs([1, 2, 3, 7, 8], 2))
        [(1, 3), (3, 4), (7, 9)]
    """
    begin = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1 or at - begin == most:
            yield numbers[begin], numbers[at - 1] + 1
            begin = at


def _write(handle: int, data: memoryview, start: int) -> None:
    while data:
        written = os.pwrite(handle, data, start)
        data, start = data[written:], start + written


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return f"{os.getppid()}"
