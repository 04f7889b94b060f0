"""Processes are found by a mark in their environment."""

from __future__ import annotations

import os
import subprocess
import sys

from barograph.machine.marked import kill_marked, marked_processes

_NAME = "BAROGRAPH_TEST_MARK"
_WAIT = "import os, sys; os.fork(); os.write(1, b'ready\\n'); sys.stdin.read()"


def test_marked_processes_and_what_they_started_are_killed() -> None:
    mark = f"job-{os.getpid()}/0"
    with subprocess.Popen([sys.executable, "-S", "-c", _WAIT], env={**os.environ, _NAME: mark}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, start_new_session=True) as first:
        assert first.stdout is not None
        assert (first.stdout.readline(), first.stdout.readline()) == (b"ready\n", b"ready\n")
        assert len(marked_processes(_NAME, f"job-{os.getpid()}/")) == 2
        assert marked_processes(_NAME, "ob-") == marked_processes("TEST_MARK", "job-") == []
        assert kill_marked(_NAME, mark) == 2
        assert marked_processes(_NAME, mark) == []
        assert kill_marked(_NAME, mark) == 0
