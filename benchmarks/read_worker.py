"""Writes a long series with `run.log`, or measures the time to read one back, in this process."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

import barograph
from benchmarks.processes import Request, Result, answer_request

KEY = "scalar:loss"


def measure(request: Result) -> Request:
    """Return the cost of writing or reading, by the request's `verb`, of `points` points at `url`."""
    return _write(request) if request["verb"] == "write" else _read(request)


def _write(request: Result) -> Request:
    """Log the points in `parts` parts with a pause after each, so that as many chunks are published."""
    points, parts = request["points"], request["parts"]
    values = _values(points).tolist()
    with barograph.attach(to=request["url"], watch=False) as run:
        for first in range(0, points, points // parts):
            for step in range(first, first + points // parts):
                run.log({"loss": values[step]}, step=step)
            time.sleep(request["pause_secs"])
    return {}


def _read(request: Result) -> Request:
    """Open the run and read the series, several times; check every value."""
    expected = _values(request["points"])
    secs = []
    for _ in range(request["times"]):
        start = time.perf_counter()
        values = barograph.open(request["url"]).series(KEY, "value").values
        secs.append(time.perf_counter() - start)
        if not np.array_equal(values, expected):
            raise ValueError(f"{len(values)} points were read that are not the {len(expected)} that were logged")
    return {"first_secs": secs[0], "later_secs": secs[1:]}


def _values(points: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=points)


if __name__ == "__main__":
    answer_request(measure)
