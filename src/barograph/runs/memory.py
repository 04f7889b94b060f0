"""How a process that watches for days stays small."""

from __future__ import annotations

import pyarrow as pa


def give_memory_back() -> None:
    """Have Arrow take memory from the system's own allocator, in this process, from now on.

    Its usual one keeps what a poll took for the next, a hundred megabytes of it; a watcher reads in bursts, beside a
    training that needs the memory. For processes that are ours: a user's own keeps what it has chosen.
    """
    pa.set_memory_pool(pa.system_memory_pool())
