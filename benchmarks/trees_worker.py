"""Trains XGBoost once, recorded or not, and reports the time."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import xgboost

import barograph
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from benchmarks.processes import Request, Result, answer_request

_EVERY = 10


def measure(request: Request) -> Result:
    """Return seconds of the training by several clocks, and the number of rounds with recorded trees."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(request["samples"], request["features"])).astype(np.float32)
    y = (x[:, :5].sum(1) + rng.normal(size=len(x)) > 0).astype(np.int64)
    data = xgboost.DMatrix(x, y)
    params = {"objective": "binary:logistic", "max_depth": 6, "eta": 0.1, "nthread": 1, "tree_method": "hist"}
    # Converting the data and importing modules is not part of the rounds.
    xgboost.train(params, data, 2, evals=[(data, "train")], verbose_eval=False)
    place = Path(request["directory"]) / "run"
    settings = {
        "on": {"preset": "free", "budget": None, "collections": (Selection(
            "trees", kinds=frozenset({Kind.TREE, Kind.IMPORTANCE}), schedule=Schedule(every=_EVERY)),)},
        "budget": {},
    }
    variant = request["variant"]
    run = barograph.attach(to=str(place), watch=False, **settings[variant]) if variant != "bare" else None
    wall, thread, cpu = time.perf_counter(), time.thread_time(), time.process_time()
    xgboost.train(params, data, request["boosting_rounds"], evals=[(data, "train")], verbose_eval=False)
    took = {"wall_secs": time.perf_counter() - wall, "thread_secs": time.thread_time() - thread,
            "cpu_secs": time.process_time() - cpu}
    recorded, capture_secs = 0, 0.0
    if run is not None:
        run.close()
        read = barograph.open(str(place))
        recorded = len(read.series("tree:depth"))
        last = read.workers[0].last
        capture_secs = last.cost.capture_secs if last is not None else 0.0
    return {**took, "recorded": recorded, "capture_secs": capture_secs}


if __name__ == "__main__":
    answer_request(measure)
