"""Aim, into a local repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aim

from benchmarks.loggers.log import Log


def open_log(directory: str) -> Log:
    """Return a run with its own defaults, without recording of the terminal and system metrics."""
    return _Log(directory)


_QUIET: dict[str, Any] = {"capture_terminal_logs": False, "system_tracking_interval": None}


class _Log:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._run = aim.Run(repo=directory, **_QUIET)
        self._hash = self._run.hash

    def one(self, value: float, step: int) -> None:
        self._run.track(value, name="loss", step=step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        self._run.track(dict(values), step=step)

    def close(self) -> None:
        self._run.close()

    def kept(self) -> int:
        # Opened read-only it shows nothing until a command has indexed the repository.
        run = aim.Run(self._hash, repo=self._directory, **_QUIET)
        return sum(len(metric.values.values_list()) for metric in run.metrics())
