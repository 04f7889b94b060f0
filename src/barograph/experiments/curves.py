"""Metrics of several runs, aligned by step, time or epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import NotARun, SettingsError, StoreError, UnknownKey, nearest
from barograph.experiments.item import Item
from barograph.measures.thinning import kept_points
from barograph.model.plain import plain
from barograph.runs.reading.metrics import metric_name, metrics_in, series_named
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url

EPOCH = "epoch"
"""Name of the metric that holds the current epoch."""

ALIGNMENTS = ("step", "time", "epoch")


@dataclass(frozen=True, slots=True, repr=False)
class Curve:
    """One series.

    Attributes:
        at: Steps, seconds since the first value, or epochs. Shape (n,), non-decreasing.
        values: Shape (n,).
    """

    at: NDArray[np.float64]
    values: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Curve({len(self.at):,} points)"

    def thinned(self) -> Curve:
        """Return the points that a chart can show; at least one."""
        kept = kept_points(self.at, self.values, low=float(self.at[0]), high=float(self.at[-1]))
        return Curve(self.at[kept], self.values[kept])


def metric_series(
    run: RunReader, name: str, points: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return steps, values and times of a metric of a run, by its name in searches and tables.

    Args:
        run: The run.
        name: Name of the metric, or a key as `keys` prints it; of a tensor that is its norm.
        points: Maximum number of points, for drawing; see `RunReader.curve`. None: all.

    Raises:
        UnknownKey: The run has no such metric; the message suggests the nearest.
    """
    known = metrics_in(run)
    metric = known.get(name) or known.get(metric_name(name))
    optimizer = None
    if metric is not None:
        key, statistic, mode, optimizer = metric.key, "value", metric.mode, metric.optimizer or None
    elif (series := series_named(run, name)) is not None:
        key, statistic, mode = series
    else:
        raise UnknownKey(f'The run has no metric "{name}". {nearest(name, _names(run, known, name))} ({run.url})')
    found = (run.series(key, statistic, mode=mode, optimizer=optimizer) if points is None
             else run.curve(key, statistic, points=points, mode=mode, optimizer=optimizer).line())
    return found.steps, found.values, found.times


def _names(run: RunReader, known: Iterable[str], name: str) -> list[str]:
    """Return the names to choose from: keys only for what looks like one, since there may be thousands."""
    return [*known, *(map(str, run.keys()) if ":" in name else ())]


def curve_of(run: RunReader, name: str, by: str = "step", *, points: int | None = None) -> Curve:
    """Return a metric of a run over steps, time or epochs.

    Args:
        run: The run.
        name: See `metric_series`.
        by: "step"; "time": seconds since the first value; "epoch": the last logged value of `epoch`.
        points: Maximum number of points, for drawing; extremes are kept. None: all.

    Raises:
        SettingsError: `by` is unknown.
        UnknownKey: The run has no such metric, or no epochs.
    """
    if by not in ALIGNMENTS:
        raise SettingsError(f'Cannot align curves by "{by}"; use one of {", ".join(ALIGNMENTS)}.')
    steps, values, times = metric_series(run, name, points)
    if by == "step":
        return Curve(steps.astype(np.float64), values)
    if by == "time":
        return Curve(times - times[0] if len(times) else times, values)
    at, epochs, _ = metric_series(run, EPOCH)
    place = np.searchsorted(at, steps, side="right") - 1
    return Curve(np.where(place >= 0, epochs[np.maximum(place, 0)], 0.0), values)


@dataclass(frozen=True, slots=True)
class CurvesOfRuns:
    """One metric of several runs.

    Attributes:
        metric: Name of the metric.
        by: "step", "time" or "epoch".
        curves: Curve of each run that has the metric, by its name; by name and ID if several have the same name.
        missing: Why a run has no curve, a sentence each.
    """

    metric: str
    by: str
    curves: Mapping[str, Curve]
    missing: tuple[str, ...] = ()

    def columns(self) -> dict[str, list[float]]:
        """Return the curves as columns over all places; see `aligned`."""
        return aligned(self.curves)

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        columns = self.columns()
        data: dict[str, Any] = plain({"metric": self.metric, "by": self.by, "at": columns.pop("at"), "curves": columns})
        return data


def curves_of_items(
    items: Sequence[Item], metric: str, by: str, *, open_run: Callable[[str], RunReader]
) -> CurvesOfRuns:
    """Return the curve of each run that has the metric.

    Args:
        items: The runs; each once, even if it is named twice.
        metric: Name of the metric.
        by: See `curve_of`.
        open_run: Opens the run at a place.

    Raises:
        SettingsError: `by` is unknown.
        UnknownKey: None of the runs has the metric.
    """
    found: dict[str, Curve] = {}
    missing: list[str] = []
    names = [item.name for item in items]
    for item in {item.uid: item for item in items}.values():
        label = item.name if names.count(item.name) == 1 and item.name != "at" else f"{item.name} ({item.uid})"
        try:
            found[label] = curve_of(open_run(str(item.facts["place"])), metric, by)
        except UnknownKey as error:
            missing.append(str(error))
    if missing and not found:
        raise UnknownKey(missing[0])
    return CurvesOfRuns(metric, by, found, tuple(missing))


def best_at(curve: Curve, at: Sequence[float], *, greater_is_better: bool) -> list[float]:
    """Return the best value that a curve had reached at each place; NaN before its first point.

    Example:
        >>> best_at(Curve(np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, 2.0])), [0, 1, 9], greater_is_better=False)
        [3.0, 1.0, 1.0]
    """
    best = []
    for place in at:
        reached = curve.values[curve.at <= place]
        reached = reached[~np.isnan(reached)]
        best.append(math.nan if not len(reached) else float(reached.max() if greater_is_better else reached.min()))
    return best


def run_of(item: Item) -> RunReader | None:
    """Return the run of a component; None if it is not a run, or its records are gone."""
    place = str(item.facts["place"])
    if not place:
        return None
    try:
        return RunReader(store_from_url(place))
    except (NotARun, StoreError):
        return None  # shown from the catalog alone


def aligned(curves: Mapping[str, Curve]) -> dict[str, list[float]]:
    """Return curves as columns over the union of their places: `at`, then each by its name.

    NaN marks a missing value; of several values at one place, the last is used.
    """
    places = np.unique(np.concatenate([curve.at for curve in curves.values()])) if curves else np.array([])
    columns: dict[str, list[float]] = {"at": places.tolist()}
    for name, curve in curves.items():
        column = np.full(len(places), math.nan)
        column[np.searchsorted(places, curve.at)] = curve.values
        columns[name] = column.tolist()
    return columns

