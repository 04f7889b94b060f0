"""Run by a Python that has MLflow: one story into a database and a file store, and what MLflow reads back of each."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import mlflow
from mlflow.data.http_dataset_source import HTTPDatasetSource
from mlflow.data.meta_dataset import MetaDataset

BEGAN_MS = 1_700_000_000_000
STEPS = 30


def tell(uri: str) -> None:
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("digits", tags={"team": "vision", "mlflow.note.content": "Wide nets win."})
    random.seed(3)
    sweep = client.create_run(experiment, start_time=BEGAN_MS, run_name="sweep").info.run_id
    run = client.create_run(experiment, start_time=BEGAN_MS + 1, run_name="wide ü", tags={
        "mlflow.parentRunId": sweep, "mlflow.note.content": "the **best** so far", "mlflow.user": "ann",
        "mlflow.source.name": "train.py", "mlflow.source.git.commit": "0a1b2c", "colour": "blue",
        "mlflow.source.git.branch": "wide", "mlflow.source.git.repoURL": "https://example.org/nets.git",
    }).info.run_id
    for name, value in {"lr": "1e-3", "width": "64", "augment": "True", "net": "mlp", "odd/name": "x"}.items():
        client.log_param(run, name, value)
    metric = mlflow.entities.Metric
    points = [metric("train/loss", math.exp(-step / 7) + random.random() / 9, BEGAN_MS + 10 * step, step)
              for step in range(STEPS)]
    points += [metric("val_loss", math.exp(-step / 9) + 0.1, BEGAN_MS + 10 * step + 3, step)
               for step in range(0, STEPS, 5)]
    points += [metric("odd", value, BEGAN_MS + place, 1) for place, value in enumerate(
        (math.nan, math.inf, -math.inf, 0.1 + 0.2, 5e-324, -0.0, 2.0**53 + 2))]
    client.log_batch(run, metrics=points)
    client.log_metric(run, "final", 1 / 3, timestamp=BEGAN_MS + 999)
    client.log_text(run, "hello", "notes/hello.txt")
    client.log_dict(run, {"a": 1}, "conf.json")
    dataset = MetaDataset(HTTPDatasetSource("https://example.org/x.csv"), name="digits.csv")
    entity = mlflow.entities.DatasetInput(
        mlflow.entities.Dataset(**{name: text for name, text in dataset.to_dict().items() if name in (
            "name", "digest", "source_type", "source", "schema", "profile")}),
        [mlflow.entities.InputTag("mlflow.data.context", "training")])
    client.log_inputs(run, [entity])
    client.create_registered_model("reader")
    client.create_model_version("reader", f"runs:/{run}/model", run)
    client.set_terminated(run, "FINISHED", BEGAN_MS + 5000)
    client.set_terminated(sweep, "FINISHED", BEGAN_MS + 6000)
    for name, status in (("broken", "FAILED"), ("shot", "KILLED")):
        other = client.create_run(experiment, start_time=BEGAN_MS + 2, run_name=name).info.run_id
        client.set_terminated(other, status, BEGAN_MS + 3000)
    going = client.create_run(experiment, start_time=BEGAN_MS + 3, run_name="going").info.run_id
    client.log_metric(going, "loss", 2.0, timestamp=BEGAN_MS + 4, step=1)
    client.delete_run(client.create_run(experiment, run_name="gone").info.run_id)


def read_back(uri: str) -> dict[str, object]:
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("digits")
    return {run.info.run_name: {
        "id": run.info.run_id, "status": run.info.status, "params": run.data.params,
        "metrics": {name: sorted((point.timestamp, point.step, point.value.hex())
                                 for point in client.get_metric_history(run.info.run_id, name))
                    for name in run.data.metrics},
    } for run in client.search_runs([experiment.experiment_id])}


if __name__ == "__main__":
    truth = {}
    for name, uri in (("database", "sqlite:///mlflow.db"), ("file store", "./files")):
        tell(uri)
        truth[name] = read_back(uri)
    Path("truth.json").write_text(json.dumps(truth))
