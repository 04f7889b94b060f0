"""A table becomes a model that predicts, without a script."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from sklearn.datasets import load_wine

from barograph.jobs.outputs import outputs_of
from barograph.store.urls import store_from_url


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    load_wine(as_frame=True).frame.to_parquet(desk.folder / "wine.parquet")
    return desk


def test_a_table_becomes_a_model_that_predicts(jobs: Any) -> None:
    done = jobs.end(jobs.start("barograph", "submit", "--name", "wine", "--algorithm", "linear", "--data",
                               "train=wine.parquet", "--target", "target", "--wait", "C=0.5"))
    assert done.code == 0, done.text + done.err
    assert 'classification of target: "target" has 3 distinct integers\n' in done.text
    assert "barograph: job wine finished." in done.err
    run = store_from_url(str(jobs.folder / "barograph-runs" / "wine"))
    assert [link.name for link in outputs_of(run)] == [
        "model/model.json", "model/model.npz", "model/predict.py", "output/metrics.json",
        "output/validation_predictions.csv"]
    assert "  model   barograph wait wine --model DIR copies it\n" in done.err
    model = jobs.folder / "fetched"
    copied = jobs.end(jobs.start("barograph", "wait", "wine", "--model", model))
    assert (copied.code, f"  model   {model}\n" in copied.err) == (0, True)
    assert json.loads((model / "model.json").read_text("utf-8"))["parameters"] == {"C": "0.5"}
    predicted = subprocess.run([sys.executable, str(model / "predict.py"), str(jobs.folder / "wine.parquet")],
                               capture_output=True, text=True, timeout=600, check=True)
    assert predicted.stdout.count("\n") == 179


def test_a_job_that_cannot_succeed_does_not_start(jobs: Any) -> None:
    done = jobs.end(jobs.start("barograph", "submit", "--algorithm", "xgboost", "--data", "train=wine.parquet",
                               "--target", "tagret", "eta=fast"))
    assert done.code != 0
    assert 'eta is "fast"; it must be a number.' in done.err
    assert 'Did you mean "target"?' in done.err
    assert not (jobs.folder / "barograph-runs").exists()
