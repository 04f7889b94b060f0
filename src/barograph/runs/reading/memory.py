"""Memory settings for long-running watchers."""

from __future__ import annotations

import ctypes
import platform

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of glibc's `mallopt`."""

_LARGE_BYTES = 2**20


def give_memory_back() -> None:
    """Make this process return large freed blocks of memory to the system from now on.

    Arrow's default allocator keeps memory of a poll for the next, up to a hundred megabytes. glibc's, after large
    blocks were freed, allocates such blocks from the heap, which shrinks only at its end. A watcher reads in bursts,
    next to a training
    that needs the memory. Only for our own processes: a user's process keeps its configuration.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for name in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            libc.mallopt(name, _LARGE_BYTES)
