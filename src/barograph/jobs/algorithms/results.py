"""Metrics of a trainer: in a file, in the run, and in the output."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from barograph.jobs.algorithms.contract import Folders, log, write_json
from barograph.measures.scores import area_under, roc_curve


def report(places: Folders, metrics: Mapping[str, Mapping[str, float]], facts: Mapping[str, Any]) -> None:
    """Write `metrics.json`, record the metrics in the run and print them."""
    write_json(places.output / "metrics.json", {**facts, **metrics})
    log({f"{part}_{name}": value for part, values in metrics.items() for name, value in values.items()})
    for part, values in metrics.items():
        say(f"{part}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items()))


def scores(target: Any, predictions: Any, classes: Sequence[str]) -> dict[str, float]:
    """Return metrics by name; "loss" is the root mean squared error, or for classes the log loss.

    Args:
        target: Numbers or class numbers, shape (rows,).
        predictions: As from `table_prediction.predict`.
    """
    if not classes:
        errors = np.asarray(predictions, np.float64) - target
        spread = float(((target - target.mean()) ** 2).sum())
        rmse = float(np.sqrt((errors**2).mean()))
        return {"loss": rmse, "rmse": rmse, "mae": float(np.abs(errors).mean()),
                "r2": 1 - float((errors**2).sum()) / spread if spread else math.nan}
    probabilities, places = np.asarray(predictions, np.float64), target.astype(int)
    of_target = probabilities[np.arange(len(places)), places] / probabilities.sum(axis=1)
    loss = float(-np.log(np.clip(of_target, np.finfo(np.float64).eps, 1.0)).mean())
    found = {"loss": loss, "log_loss": loss, "accuracy": float((probabilities.argmax(axis=1) == places).mean())}
    if len(classes) == 2 and len(set(places.tolist())) == 2:
        curve = roc_curve(places == 1, probabilities[:, 1])
        found["auc"] = area_under(curve.false_positives, curve.true_positives)
    return found


def say_refitted(rows: int) -> None:
    """Print and record that the model was trained again on all rows."""
    say(f"Model refitted on all {rows:,} rows, with those for validation.")
    log({"refitted_rows": rows})


def say(text: str) -> None:
    """Print a line at once, so that it stands in the log in order."""
    print(text)
    sys.stdout.flush()


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of packages with these import names, by the names under which they are installed."""
    names = _installed()
    return {name: importlib.metadata.version(name)
            for package in ("numpy", *packages) for name in names.get(package, ())[:1]}


@functools.cache
def _installed() -> Mapping[str, list[str]]:
    """Return the packages with each import name. To find them reads the list of files of every installed package."""
    return importlib.metadata.packages_distributions()
