"""Trackio, local: its own SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from benchmarks.loggers.log import Log


def open_log(directory: str) -> Log:
    """Return a local run with its own defaults, in `directory`."""
    os.environ["TRACKIO_DIR"] = directory  # read at import
    return _Log(directory)


class _Log:
    def __init__(self, directory: str) -> None:
        import trackio

        self._directory = Path(directory)
        self._trackio = trackio
        trackio.init(project="bench", embed=False)

    def one(self, value: float, step: int) -> None:
        self._trackio.log({"loss": value}, step=step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(values), step=step)

    def close(self) -> None:
        self._trackio.finish()

    def kept(self) -> int:
        total = 0
        for path in self._directory.rglob("*.db"):
            with closing(sqlite3.connect(path)) as database:
                total += database.execute(
                    "SELECT coalesce(sum((SELECT count(*) FROM json_each(metrics.metrics))), 0) FROM metrics"
                ).fetchone()[0]
        return total
