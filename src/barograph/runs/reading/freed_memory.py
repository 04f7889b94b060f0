"""Keeps the memory of long-running servers small: returns what is free, and imports no library that they do not use."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from importlib.abc import MetaPathFinder

_ARROW = "pyarrow"
_M_ARENA_MAX, _ARENAS = -8, 2
"""Parameter of `mallopt`, and its value."""


@functools.cache
def keep_arrow_small() -> None:
    """Call `read_with_system_allocator` and `convert_without_pandas`, once; to be called before Arrow is used."""
    read_with_system_allocator()
    convert_without_pandas()


def share_arenas() -> None:
    """Have all threads share two arenas of malloc, with glibc; to be called before there are threads.

    Otherwise each thread keeps what it has freed for itself.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def read_with_system_allocator() -> None:
    """Have Arrow use the system's allocator: its default pool keeps what each thread has freed, for that thread."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_freed_memory() -> None:
    """Return free memory to the operating system, if Arrow was used."""
    if _ARROW in sys.modules:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()


def convert_without_pandas() -> None:
    """Have Arrow convert values without pandas for the life of this process; `to_pandas` fails then.

    Where pandas is installed, Arrow imports it at its first conversion, which takes 40 MB and a third of a second.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([0])  # Arrow tries once
    finally:
        absent.thread = None


class _Absent(MetaPathFinder):
    """Finds no pandas for the thread that makes it, until that is over.

    It stays in `sys.meta_path`: a thread that imports something while one is removed there would pass over another.
    """

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Return None, so that the next finder is asked, for any other module."""
        if fullname == "pandas" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("pandas is hidden from Arrow here", name=fullname)
