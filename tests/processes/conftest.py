"""Processes that misbehave, for the tests that start and end them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from barograph.processes.command import Command

IGNORING_SIGTERM = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
signal.pause()
"""


class Family:
    """A process with a child that ignores SIGTERM.

    Attributes:
        command: Prints the number of the child, then waits for it.
    """

    def __init__(self) -> None:
        starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {IGNORING_SIGTERM!r}])"
        self.command = Command((sys.executable, "-c", starts))

    def child(self, line: bytes) -> psutil.Process:
        """Return the child whose number stands in a line."""
        return psutil.Process(int(line))


@pytest.fixture
def family() -> Family:
    return Family()


@pytest.fixture
def python() -> Callable[..., Command]:
    """Return what makes the command that runs a few lines of Python."""
    return lambda code, *arguments: Command((sys.executable, "-c", code, *map(str, arguments)))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)
