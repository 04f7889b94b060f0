"""MLflow, into its SQLite file without a server, with blocking calls as shown in its guide."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import mlflow

from benchmarks.loggers.log import Log


def open_log(directory: str) -> Log:
    """Return an active run in a SQLite file in `directory`."""
    return _Log(directory)


class _Log:
    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/mlflow.db"
        mlflow.set_tracking_uri(f"sqlite:///{self._path}")
        mlflow.start_run()

    def one(self, value: float, step: int) -> None:
        mlflow.log_metric("loss", value, step=step)

    def several(self, values: Mapping[str, float], step: int) -> None:
        mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        mlflow.end_run()

    def kept(self) -> int:
        with closing(sqlite3.connect(self._path)) as database:
            (total,) = database.execute("SELECT count(*) FROM metrics").fetchone()
        return int(total)
