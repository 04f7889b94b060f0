"""A process that is not to outlive its starter ends with it, whatever ends the starter."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psutil

from barograph.processes.command import own_module
from barograph.processes.local_process import DEVNULL, PIPE, LocalProcess

from .conftest import IGNORING_SIGTERM

STARTER = f"""
import sys
from barograph.processes.command import Command
from barograph.processes.local_process import LocalProcess
family = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
LocalProcess(Command((sys.executable, "-c", family, {IGNORING_SIGTERM!r})), ends_with_us=True)
sys.stdin.read()
"""


def test_a_family_ends_with_a_starter_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        child = psutil.Process(int(starter.stdout.readline()))
        family = child.parent()
        assert family is not None
        starter.kill()
    child.wait(600)
    family.wait(600)


def guards_of(process: LocalProcess) -> list[psutil.Process]:
    """Return the guards of a process that have not ended yet."""
    return [found for found in psutil.process_iter(["cmdline"])
            if (found.info["cmdline"] or [])[-2:] == ["barograph.processes.guard", str(process.pid)]]


def wait_for_guards_of(process: LocalProcess) -> None:
    for guard in guards_of(process):
        guard.wait(600)


def test_a_guard_that_is_dismissed_ends_nothing(python: Any) -> None:
    process = LocalProcess(python("import signal; signal.pause()"))
    guard = LocalProcess(own_module("barograph.processes.guard", str(process.pid)), stdin=PIPE)
    guard.feed(b"done")
    assert guard.wait() == 0
    wait_for_guards_of(process)
    assert process.poll() is None
    process.kill()
    assert process.wait() == -9


def test_the_guard_ends_with_the_process(python: Any) -> None:
    process = LocalProcess(python(""), ends_with_us=True)
    assert process.wait() == 0
    wait_for_guards_of(process)


def test_the_guard_ends_when_the_process_is_killed(family: Any) -> None:
    process = LocalProcess(family.command, stdout=DEVNULL, ends_with_us=True)
    while not guards_of(process):
        assert process.poll() is None
    assert process.end(0.0) in (-9, -15)
    wait_for_guards_of(process)
