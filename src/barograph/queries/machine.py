"""Step time by part, and machine use."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.measures.thinning import kept_points
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.queries.curves import Curve, CurveMaker
from barograph.runs.reading.bundle import bundles
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.time_of_steps import STEP_PARTS, time_of_steps
from barograph.runs.reading.windows import windows_of

MOST_GAUGES = 60
"""Maximum number of machine metrics in a report."""

_ONE_CORE = re.compile(r"cpu\[\d+\]$")
_UNITS = (
    (re.compile(r"(cpu(_.*)?|process_cpu|gpu\[.*|gpu_memory\[.*)$"), "percent"),
    (re.compile(r"(memory|memory_total|process_memory|gpu_memory_bytes\[.*)$"), "bytes"),
    (re.compile(r"(disk|net)_"), "bytes a second"),
)


@dataclass(frozen=True, slots=True)
class StepTime:
    """Step time by part.

    Attributes:
        secs: Mean seconds of a step, as "step", and of its parts.
        over_time: Part to its seconds over the steps.
    """

    secs: dict[str, float]
    over_time: dict[str, Curve]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric of the machine over the run.

    Attributes:
        name: "cpu", "gpu[0]", "memory" and so on.
        unit: "percent", "bytes", "bytes a second", "count".
        mean, greatest, last: Of all values.
        secs: Seconds since the run started, reduced to what a chart can show.
        values: Values at these times.
    """

    name: str
    unit: str
    mean: float
    greatest: float
    last: float
    secs: tuple[float, ...]
    values: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def step_time_in(run: RunReader) -> StepTime | None:
    """Return the step time by part; None if not recorded.

    Raises:
        StoreError: The store cannot be read.
    """
    means = time_of_steps(run)
    if not means:
        return None
    windows = windows_of(run, Kind.TIME)
    makers: dict[tuple[str, str], CurveMaker] = {}
    counts: Counter[str] = Counter()
    for start, stop in windows:
        for mode, optimizer, (series,) in bundles(run, Kind.TIME, start=start, stop=stop):
            name = series.key.path
            if mode is Mode.TRAIN and name in ("step", "longest", *STEP_PARTS):
                maker = makers.setdefault((optimizer, name), CurveMaker(
                    f"time:{name}", mode, optimizer, low=windows.low, high=windows.high))
                maker.add(series.steps, series.values)
                counts[optimizer] += len(series)
    # Each optimizer counts its own steps: the one with the most records has a chart.
    whose = max(counts, key=lambda optimizer: counts[optimizer], default="")
    order = ("step", "longest", *STEP_PARTS)
    return StepTime(means, {name: makers[whose, name].curve() for name in order if (whose, name) in makers})


def machine_in(run: RunReader) -> tuple[Gauge, ...]:
    """Return machine use by name, without single cores.

    Raises:
        StoreError: The store cannot be read.
    """
    makers: dict[str, _GaugeMaker] = defaultdict(_GaugeMaker)
    for start, stop in windows_of(run, Kind.MACHINE):
        for _, _, (series,) in bundles(run, Kind.MACHINE, start=start, stop=stop):
            if not _ONE_CORE.match(series.key.path):
                makers[series.key.path].add(series.times - run.manifest.created_unix, series.values)
    names = sorted(makers, key=lambda name: (_unit(name) != "percent", "gpu" not in name, name))[:MOST_GAUGES]
    return tuple(makers[name].gauge(name) for name in names)


class _GaugeMaker:
    """Builds a gauge from parts of a run, each reduced to what a chart needs."""

    def __init__(self) -> None:
        self._secs: list[NDArray[np.float64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._finite, self._sum = 0, 0.0
        self._last = (-math.inf, math.nan)

    def add(self, secs: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Add values and their times; at least one."""
        order = np.argsort(secs, kind="stable")
        secs, values = secs[order], values[order]
        finite = values[np.isfinite(values)]
        self._finite += len(finite)
        self._sum += float(finite.sum())
        if secs[-1] >= self._last[0]:
            self._last = (float(secs[-1]), float(values[-1]))
        kept = kept_points(secs, values, low=float(secs[0]), high=float(secs[-1]))
        self._secs.append(secs[kept])
        self._values.append(values[kept])

    def gauge(self, name: str) -> Gauge:
        """Return the gauge of all values."""
        secs, values = np.concatenate(self._secs), np.concatenate(self._values)
        order = np.argsort(secs, kind="stable")
        secs, values = secs[order], values[order]
        finite = values[np.isfinite(values)]  # includes the maximum of each part
        kept = kept_points(secs, values, low=float(secs[0]), high=float(secs[-1]))
        return Gauge(
            name, _unit(name), mean=self._sum / self._finite if self._finite else math.nan,
            greatest=float(finite.max()) if len(finite) else math.nan, last=self._last[1],
            secs=tuple(secs[kept].round(3).tolist()), values=tuple(values[kept].tolist()),
        )


def _unit(name: str) -> str:
    return next((unit for pattern, unit in _UNITS if pattern.match(name)), "count")
