"""What `barograph run` records of built-in algorithms."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_wine

import barograph
from barograph.jobs.algorithms.registry import algorithm_named
from forking import TABLES

FORKED = TABLES


@pytest.fixture
def record(tmp_path: Path, programs: Path) -> Any:
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)

    def record(name: str, *arguments: str) -> tuple[Any, Any]:
        script = algorithm_named(name).copy_script(tmp_path)
        environment = {"SM_CHANNEL_TRAIN": "wine.csv", "SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output"}
        done = subprocess.run(
            [programs / "barograph", "run", "--to", "run", script.name, "--target", "target", *arguments],
            env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        metrics = json.loads((tmp_path / "output" / "metrics.json").read_text("utf-8"))
        return barograph.open(str(tmp_path / "run")), metrics

    return record


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_rounds_of_boosted_trees_have_losses_of_both_data_sets(record: Any, name: str) -> None:
    run, metrics = record(name, "--num_boost_round" if name == "xgboost" else "--num_iterations", "12")
    assert len(run.series("loss:total")) == 12
    assert len(run.steps("eval")) == 12
    evaluated = run.series("loss:total", mode="eval").values
    assert evaluated[-1] == pytest.approx(metrics["validation"]["loss"], rel=1e-5)
    assert run.series("scalar:validation_loss").values.tolist() == [metrics["validation"]["loss"]]


def test_epochs_of_a_perceptron_have_a_loss_and_a_validation_loss(record: Any) -> None:
    run, metrics = record("mlp", "--max_iter", "7")
    assert run.series("loss:total").values.tolist() == pytest.approx(metrics["epoch_losses"])
    assert run.series("scalar:epoch_loss").values.tolist() == pytest.approx(metrics["epoch_losses"])
    losses = run.series("scalar:validation_loss").values.tolist()
    assert len(losses) == 8
    assert losses[-1] == metrics["validation"]["loss"] == pytest.approx(min(losses[:-1]))


def test_a_linear_model_has_its_metrics_and_one_step(record: Any) -> None:
    run, metrics = record("linear")
    assert run.series("loss:total").values.tolist() == [metrics["train"]["loss"]]
    assert run.series("loss:total", mode="eval").values.tolist() == [metrics["validation"]["loss"]]
    assert run.series("scalar:validation_accuracy").values.tolist() == [metrics["validation"]["accuracy"]]
