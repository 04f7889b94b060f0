"""Memory settings for long-running watchers."""

from __future__ import annotations

import ctypes
import platform

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of glibc's `mallopt`."""

_LARGE_BYTES = 2**20


def give_memory_back() -> None:
    """Return large freed blocks of memory to the system, in this process, from now on.

    Arrow's usual allocator keeps what a poll took for the next, a hundred megabytes of it, and glibc's, once large
    pieces were freed, takes such pieces from a heap that shrinks at its end alone. A watcher reads in bursts, beside a
    training that needs the memory. For processes that are ours: a user's own keeps what it has chosen.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for name in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            libc.mallopt(name, _LARGE_BYTES)
