"""The output of an instance in the job's store, in parts: everything up to a limit, then only the end."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from barograph.errors import ObjectNotFound
from barograph.jobs.job_log import log_folder
from barograph.provenance.secrets import Secrets
from barograph.store.base import Store

MOST_BYTES = 64 * 2**20
"""Output above this is left out, except for the last part."""
_END_BYTES = 2**20
_PART_BYTES = 2**20
_PAUSE_SECS = 0.5


class InstanceLog:
    """Writes the output of an instance.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Index of the instance.
        secrets: Values that are replaced.
        most_bytes: See `MOST_BYTES`.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, store: Store, attempt: int, index: int, *, secrets: Secrets, most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._folder, self.secrets = store, log_folder(attempt, index), secrets
        self._most_bytes, self._clock = most_bytes, clock
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._written_bytes = self._left_out_bytes = 0
        self._end: deque[bytes] = deque()
        self._end_bytes = 0
        self._part = 0
        self._due = clock()

    def add(self, data: bytes) -> None:
        """Take whole lines of output."""
        if not data:
            return
        if self._written_bytes + len(data) <= self._most_bytes:
            self._written_bytes += len(data)
            self._await(data)
            return
        if self._written_bytes < self._most_bytes:
            self._written_bytes = self._most_bytes
            self._await(f"[barograph: of output above {self._most_bytes:,} bytes only the end is stored]\n".encode())
        self._end.extend(_in_parts(data))
        self._end_bytes += len(data)
        while len(self._end) > 1 and self._end_bytes - len(self._end[0]) >= _END_BYTES:
            dropped = len(self._end.popleft())
            self._end_bytes -= dropped
            self._left_out_bytes += dropped

    def write(self, *, last: bool = False) -> None:
        """Write a part if it is due; at the end, everything.

        Raises:
            StoreError: The store rejects it; it is written at the next call.
        """
        while self._waiting and (last or self._waiting_bytes >= _PART_BYTES or self._clock() >= self._due):
            self._put_next()
            if not last:
                break  # the rest at the next calls: an instance has more to do
        if last and self._end:
            left_out = f"[barograph: {self._left_out_bytes:,} bytes of output were left out]\n" \
                if self._left_out_bytes else ""
            self._put(left_out.encode() + b"".join(self._end))
            self._end.clear()

    def _await(self, data: bytes) -> None:
        self._waiting.extend(_in_parts(data))
        self._waiting_bytes += len(data)

    def _put_next(self) -> None:
        """Write the first of what waits, up to the size of a part."""
        parts, size_bytes = 0, 0
        for data in self._waiting:
            if parts and size_bytes + len(data) > _PART_BYTES:
                break
            parts, size_bytes = parts + 1, size_bytes + len(data)
        self._put(b"".join(itertools.islice(self._waiting, parts)))
        for _ in range(parts):
            self._waiting.popleft()
        self._waiting_bytes -= size_bytes

    def _put(self, data: bytes) -> None:
        text = self.secrets.hide(data.decode("utf-8", "replace"))
        self._store.put(f"{self._folder}/{self._part:08d}.log", text.encode("utf-8", "replace"))
        self._part += 1
        self._due = self._clock() + _PAUSE_SECS


def _in_parts(data: bytes) -> Iterator[bytes]:
    """Yield output in parts of whole lines, unless a line is longer."""
    start = 0
    while start < len(data):
        end = min(len(data), start + _PART_BYTES)
        if end < len(data):
            end = data.rfind(b"\n", start, end) + 1 or end
        yield data[start:end]
        start = end


@dataclass(slots=True)
class LogReader:
    """Reads the output of an instance, from the beginning.

    Attributes:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Index of the instance.
        part: The next part.
    """

    store: Store
    attempt: int
    index: int
    part: int = 0

    def new(self) -> Iterator[str]:
        """Yield the output that was written since the last call."""
        while True:
            try:
                data = self.store.get(f"{log_folder(self.attempt, self.index)}/{self.part:08d}.log")
            except ObjectNotFound:
                return
            self.part += 1
            yield bytes(data).decode("utf-8", "replace")
