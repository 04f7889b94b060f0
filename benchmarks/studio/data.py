"""The data that every tool shows. Imports nothing, because it is read in the environments of all tools."""

from __future__ import annotations

import math
from collections.abc import Iterator

SPIKE_STEP, NAN_STEP, SPIKE = 777_777, 555_555, 100.0
"""Steps of the spike and of the NaN in a million points; the other values are below 3."""

RUNS, CHARTS, POINTS, KEYS, LIVE = "runs", "charts", "points", "keys", "live"
"""Sets of data: many runs, many charts, many points, many names, a training."""


def value_at(run: int, metric: int, step: int) -> float:
    """Return a value of a metric: it falls, with noise that is the same everywhere."""
    noise = ((step * 2654435761 + metric * 40503 + run * 97) % 1000) / 5000
    return (1 + metric % 7) * math.exp(-step / (200 + 10 * run)) + noise


def point_at(step: int, steps: int) -> float:
    """Return a value of the long curve; the spike and the NaN keep their place in a shorter one."""
    if step == SPIKE_STEP * steps // 1_000_000:
        return SPIKE
    return math.nan if step == NAN_STEP * steps // 1_000_000 else 2 + math.sin(step / 5000)


def metric_names(count: int) -> list[str]:
    """Return names of metrics."""
    return [f"group{number % 10}/metric{number:03}" for number in range(count)]


def parameters_of(run: int) -> dict[str, float]:
    """Return the parameters of one of many runs."""
    return {"lr": 10.0 ** -(1 + run % 4), "width": float(16 * (1 + run % 5)), "seed": float(run % 3)}


def rows(runs: int, metrics: int, steps: int) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield run, step and values of the many charts."""
    names = metric_names(metrics)
    for run in range(runs):
        for step in range(steps):
            yield run, step, {name: value_at(run, at, step) for at, name in enumerate(names)}
