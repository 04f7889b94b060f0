"""Clocks of the training thread: processor time, and time spent waiting for a processor."""

from __future__ import annotations

import contextlib
import os
import time

cpu_secs = time.thread_time
"""Returns the processor time of the calling thread in seconds."""

_SCHEDULER = "/proc/thread-self/schedstat"
_NANO = 1e-9


class ProcessorWait:
    """Time that one thread was runnable without a processor, because other programs used all of them.

    Linux counts it for each thread. On other systems it is 0.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._opened: os.stat_result | None = None
        self._begin_secs = 0.0

    def start(self) -> None:
        """Start counting for the calling thread."""
        try:
            self._file = os.open(_SCHEDULER, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._opened = os.fstat(self._file)
        self._begin_secs = self._read()

    def secs(self) -> float:
        """Return the seconds waited since `start`."""
        return self._read() - self._begin_secs

    def _read(self) -> float:
        if self._file is None:
            return 0.0
        try:
            # Three integers: nanoseconds on a processor, nanoseconds waited for one, time slices.
            return int(os.pread(self._file, 128, 0).split()[1]) * _NANO
        except (OSError, IndexError, ValueError):
            return self._begin_secs  # the thread has ended, or the kernel does not count

    def __del__(self) -> None:
        if self._file is None or self._opened is None:
            return
        # The script may have closed all descriptors, and this number may now be a file of its own.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._file), self._opened):
                os.close(self._file)
