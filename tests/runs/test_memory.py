"""A process that watches keeps no memory that it does not use."""

from __future__ import annotations

import subprocess
import sys


def test_memory_comes_from_the_systems_allocator_once_it_is_asked_for() -> None:
    code = ("import pyarrow as pa; from barograph.runs.memory import give_memory_back; "
            "before = pa.default_memory_pool().backend_name; give_memory_back(); "
            "print(before, pa.default_memory_pool().backend_name)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    before, after = done.stdout.split()
    assert (before != "system", after) == (True, "system")
