"""Where the time of a step went, and how much of the machine was used."""

from __future__ import annotations

import math
import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.report.content import Gauge, StepTime
from barograph.report.curves import CurveMaker
from barograph.report.thinning import kept_points
from barograph.runs.bundle import bundles
from barograph.runs.reader import Run
from barograph.runs.time_of_steps import STEP_PARTS, time_of_steps
from barograph.runs.windows import windows_of

MOST_GAUGES = 60
"""Most figures of the machine that a report holds."""

_ONE_CORE = re.compile(r"cpu\[\d+\]$")
_UNITS = (
    (re.compile(r"(cpu(_.*)?|process_cpu|gpu\[.*|gpu_memory\[.*)$"), "percent"),
    (re.compile(r"(memory|memory_total|process_memory|gpu_memory_bytes\[.*)$"), "bytes"),
    (re.compile(r"(disk|net)_"), "bytes a second"),
)


def step_time_in(run: Run) -> StepTime | None:
    """Return where the time of a step went; None where it was not told.

    Raises:
        StoreError: The store cannot be read.
    """
    means = time_of_steps(run)
    if not means:
        return None
    windows = windows_of(run, Kind.TIME)
    makers: dict[str, CurveMaker] = {}
    for start, stop in windows:
        for mode, optimizer, (series,) in bundles(run, Kind.TIME, start=start, stop=stop):
            name = series.key.path
            if mode is Mode.TRAIN and name in ("step", "longest", *STEP_PARTS):
                maker = makers.setdefault(name, CurveMaker(f"time:{name}", mode, optimizer, low=windows.low,
                                                           high=windows.high))
                maker.add(series.steps, series.values)
    order = ("step", "longest", *STEP_PARTS)
    return StepTime(means, {name: makers[name].curve() for name in order if name in makers})


def machine_in(run: Run) -> tuple[Gauge, ...]:
    """Return how much of the machine was used, by name; single cores are left out.

    Raises:
        StoreError: The store cannot be read.
    """
    times: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    values: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    for start, stop in windows_of(run, Kind.MACHINE):
        for _, _, (series,) in bundles(run, Kind.MACHINE, start=start, stop=stop):
            if not _ONE_CORE.match(series.key.path):
                times[series.key.path].append(series.times)
                values[series.key.path].append(series.values)
    names = sorted(times, key=lambda name: (_unit(name) != "percent", "gpu" not in name, name))[:MOST_GAUGES]
    return tuple(_gauge(run, name, np.concatenate(times[name]), np.concatenate(values[name])) for name in names)


def _gauge(run: Run, name: str, times: NDArray[np.float64], values: NDArray[np.float64]) -> Gauge:
    order = np.argsort(times, kind="stable")
    secs, values = times[order] - run.manifest.created_unix, values[order]
    finite = values[np.isfinite(values)]
    kept = kept_points(secs, values, low=float(secs[0]), high=float(secs[-1]))
    return Gauge(
        name, _unit(name), mean=float(finite.mean()) if len(finite) else math.nan,
        greatest=float(finite.max()) if len(finite) else math.nan, last=float(values[-1]),
        secs=tuple(secs[kept].round(3).tolist()), values=tuple(values[kept].tolist()),
    )


def _unit(name: str) -> str:
    return next((unit for pattern, unit in _UNITS if pattern.match(name)), "count")
