"""Returns freed memory to the operating system in long-running servers."""

from __future__ import annotations

import pyarrow as pa


def read_with_system_allocator() -> None:
    """Have Arrow use the system's allocator: its default pool keeps what each thread has freed, for that thread."""
    pa.set_memory_pool(pa.system_memory_pool())


def release_freed_memory() -> None:
    """Return free memory to the operating system."""
    pa.default_memory_pool().release_unused()
