"""Keeps the memory of long-running servers small: returns what is free, and imports no library that they do not use."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


def read_with_system_allocator() -> None:
    """Have Arrow use the system's allocator: its default pool keeps what each thread has freed, for that thread."""
    pa.set_memory_pool(pa.system_memory_pool())


def release_freed_memory() -> None:
    """Return free memory to the operating system."""
    pa.default_memory_pool().release_unused()


def convert_without_pandas() -> None:
    """Have Arrow convert values without pandas for the life of this process; `to_pandas` fails then.

    Where pandas is installed, Arrow imports it at its first conversion, which takes 40 MB and a third of a second.
    """
    if "pandas" in sys.modules:
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([0])  # Arrow tries once
    finally:
        sys.meta_path.remove(absent)


class _Absent(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Return None, so that the next finder is asked, for any other module."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden from Arrow here", name=fullname)
