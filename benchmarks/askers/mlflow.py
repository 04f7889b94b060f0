"""MLflow's tracking store in its SQLite file, without a server, queried by its own client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import mlflow
from mlflow.entities import Metric, Param, RunTag

from benchmarks.askers.asker import CURVE, FILTER, SERIES, TABLE, Asker, components_of

_BATCH = 1_000
"""Maximum number of metrics per call."""


def open_asker(directory: str) -> Asker:
    """Return an empty store in `directory`."""
    return _Asker(directory)


class _Asker:
    def __init__(self, directory: str) -> None:
        mlflow.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
        self._client = mlflow.MlflowClient()
        self._filled = self._client.create_experiment("filled")
        self._run = ""

    def fill(self, components: int) -> None:
        now = int(time.time() * 1000)
        for item in components_of(components):
            run = self._client.create_run(self._filled, run_name=item.name)
            self._client.log_batch(
                run.info.run_id, [Metric(name, value, now, 0) for name, value in item.metrics.items()],
                [Param(name, str(value)) for name, value in item.parameters.items()],
                [RunTag(name, text) for name, text in item.tags.items()],
            )

    def record(self, values: list[float]) -> None:
        self._run = self._client.create_run(self._client.create_experiment("series")).info.run_id
        now = int(time.time() * 1000)
        for first in range(0, len(values), _BATCH):
            self._client.log_batch(self._run, [
                Metric("loss", value, now + step, step)
                for step, value in enumerate(values[first : first + _BATCH], first)
            ])

    def questions(self) -> Mapping[str, Callable[[], int]]:
        # Its client has no downsampled curve, only the complete series.
        return {TABLE: self._table, FILTER: self._filter, SERIES: self._series, CURVE: self._series}

    def _table(self) -> int:
        return len(mlflow.search_runs([self._filled], max_results=1_000_000))

    def _filter(self) -> int:
        return len(self._client.search_runs(
            [self._filled], "metrics.val_loss < 0.3 and params.opt = 'adam'", max_results=100,
            order_by=["metrics.acc DESC"],
        ))

    def _series(self) -> int:
        return len(self._client.get_metric_history(self._run, "loss"))
