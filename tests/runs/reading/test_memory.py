"""A process that watches keeps no memory that it does not use."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from barograph.runs.reading.memory import give_memory_back

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

give_memory_back()
freed_at_once = np.ones(2**21, np.uint8)
del freed_at_once
before = resident()
pieces = [np.ones(2**21 - 4096, np.uint8) for _ in range(50)]
last = pieces.pop()
pieces.clear()
print(resident() - before)
"""

def test_memory_comes_from_the_systems_allocator_once_it_is_asked_for() -> None:
    code = ("import pyarrow as pa; from barograph.runs.reading.memory import give_memory_back; "
            "before = pa.default_memory_pool().backend_name; give_memory_back(); "
            "print(before, pa.default_memory_pool().backend_name)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    before, after = done.stdout.split()
    assert (before != "system", after) == (True, "system")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how the memory of glibc is given back")
def test_large_pieces_go_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=600)
    assert int(done.stdout) < 10 * 2**20
