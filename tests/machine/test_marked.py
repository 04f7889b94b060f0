"""Processes are found by a mark in their environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

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


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is read from /proc")
def test_a_process_that_is_just_being_started_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"job-{os.getpid()}/starting"
    for _ in range(30):  # most of these have no environment yet when their number is known
        with subprocess.Popen(["sleep", "600"], env={**os.environ, _NAME: mark}) as process:
            monkeypatch.setattr(os, "listdir", lambda _, pid=process.pid: [str(pid)])
            found = marked_processes(_NAME, mark)
            process.kill()
        assert found == [process.pid]


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is read from /proc")
def test_nobody_waits_for_processes_without_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"], env={}) as bare, subprocess.Popen(["true"]) as ended:
        try:
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # leave a zombie
            monkeypatch.setattr(os, "listdir", lambda _: [str(bare.pid), str(ended.pid), "2"])
            marked_processes(_NAME, "any")  # whatever it has to wait for until `bare` has started
            monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waited"))
            assert marked_processes(_NAME, "any") == []
        finally:
            bare.kill()
