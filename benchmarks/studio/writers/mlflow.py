"""Writes the charts with MLflow: python -m benchmarks.studio.writers.mlflow SET DIRECTORY SIZES"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

from benchmarks.studio.data import CHARTS, metric_names, parameters_of, rows, value_at

_FIRST_MS = 1_790_000_000_000
_BATCH = 1_000
"""Metrics in one call: it takes no more."""


def _batches(metrics: Iterator[tuple[str, float, int]]) -> Iterator[list[tuple[str, float, int]]]:
    while batch := list(itertools.islice(metrics, _BATCH)):
        yield batch


def main(what: str, directory: str, *sizes: int) -> None:
    """Write a set of data."""
    import mlflow
    from mlflow.entities import Metric, Param

    mlflow.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("bench")
    if what == CHARTS:
        for run, group in itertools.groupby(rows(*sizes), lambda row: row[0]):
            run_id = client.create_run(experiment, run_name=f"run{run:02}").info.run_id
            flat = ((name, value, step) for _, step, values in group for name, value in values.items())
            for batch in _batches(flat):
                client.log_batch(run_id, [Metric(name, value, _FIRST_MS + step, step) for name, value, step in batch])
            client.set_terminated(run_id)
        return
    for number in range(sizes[0]):
        run_id = client.create_run(experiment, run_name=f"run{number:05}").info.run_id
        client.log_batch(run_id, [Metric(name, value_at(number, at, 1000), _FIRST_MS, 0)
                                  for at, name in enumerate(metric_names(5))],
                         [Param(name, str(value)) for name, value in parameters_of(number).items()])
        client.set_terminated(run_id)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
