"""A process that has no work without the one that began it ends with it, also in the middle of a loop."""

from __future__ import annotations

import subprocess
import sys

import psutil

LOOPING = """
from barograph.processes.parent import end_with_parent
end_with_parent()
print("on", flush=True)
while True:
    pass
"""

BEGINNING = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {LOOPING!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", BEGINNING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(timeout=600)
