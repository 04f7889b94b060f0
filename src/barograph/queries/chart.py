"""Lines of charts: few points, with the true extremes of the part that is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import SettingsError, UnknownKey, nearest
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.queries.chart_names import chart_names as chart_names
from barograph.queries.chart_names import known_series
from barograph.runs.format.curves_file import SeriesName as PlainName
from barograph.runs.reading.bundle import SeriesName, bundles, in_order
from barograph.runs.reading.curves import curves
from barograph.runs.reading.envelope import Envelope, envelope_of_columns
from barograph.runs.reading.metrics import key_and_mode, metric_name, metric_of
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series

STEP, TIME = "step", "time"
"""Values of the x axis of a chart, besides a metric."""

_OF_TENSORS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.OUTPUT, Kind.INPUT,
                         Kind.OPTIMIZER_STATE, Kind.CUSTOM, Kind.BATCH, Kind.TARGET})


@dataclass(frozen=True, slots=True)
class Axis:
    """The x axis of a chart, and the part of it that is shown.

    Attributes:
        of: "step"; "time", in seconds since the run started; or the name of a metric, whose value at each step is the
            position.
        low, high: First and last position; None: all.
        log: The axis is logarithmic, so points are kept evenly on that scale.
    """

    of: str = STEP
    low: float | None = None
    high: float | None = None
    log: bool = False

    @property
    def steps(self) -> tuple[int | None, int | None]:
        """Where the steps that are shown start and stop."""
        return (None if self.low is None else math.floor(self.low),
                None if self.high is None else math.ceil(self.high) + 1)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart.

    Attributes:
        name: Name of the metric, or a key such as "gradient:fc.weight".
        statistic: "value", or the statistic of a tensor.
        mode: Mode of its steps.
        optimizer: Optimizer that counts the steps; "" if there is only one.
        count: Number of recorded points in the range that was asked for.
        last: Value at the last step; NaN if that is NaN.
        least, greatest: Extremes of the finite values; NaN if there are none.
        nonfinite: Number of points that are NaN or infinite.
        nonfinite_steps: First and last step of each part that has such points.
        nonfinite_at: First and last position of these parts; () if the x axis is the step.
        span: Positions of the first and the last recorded point on the x axis; () without points.
        steps: Steps of the points to draw: the minimum and the maximum of each part of the line.
        positions: Their positions on the x axis; () if that is the step.
        values: Their values. NaN interrupts the line.
        mean_at, means, mean_counts: Position, mean and number of points of each part, for a smoothed line; () if not
            asked for.
    """

    name: str
    statistic: str
    mode: str
    optimizer: str
    count: int
    last: float
    least: float
    greatest: float
    nonfinite: int
    nonfinite_steps: tuple[tuple[int, int], ...]
    nonfinite_at: tuple[tuple[float, float], ...]
    span: tuple[float, ...]
    steps: tuple[int, ...]
    positions: tuple[float, ...]
    values: tuple[float, ...]
    mean_at: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    mean_counts: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = {
            "name": self.name, "statistic": self.statistic, "mode": self.mode, "optimizer": self.optimizer,
            "count": self.count, "last": plain(self.last), "least": plain(self.least),
            "greatest": plain(self.greatest), "nonfinite": self.nonfinite,
            "nonfinite_steps": [list(span) for span in self.nonfinite_steps],
            "nonfinite_at": [list(span) for span in self.nonfinite_at],
            "span": list(self.span), "steps": list(self.steps), "positions": list(self.positions),
            # Finite or NaN; there may be thousands.
            "values": [None if value != value else value for value in self.values],
        }
        if self.mean_at:
            data |= {"mean_at": list(self.mean_at), "mean_counts": list(self.mean_counts),
                     "means": [None if value != value else value for value in self.means]}
        return data


def chart_line(
    run: RunReader, name: str, *, points: int, start: int | None = None, stop: int | None = None
) -> ChartLine:
    """Return one line of a chart over the steps; arguments and errors as of `chart_lines`.

    Args:
        run: The run.
        name: Name of a metric, or a key.
        points: Maximum number of points.
        start, stop: Only steps >= start, < stop.

    Raises:
        UnknownKey: The run has no such metric or key.
    """
    axis = Axis(low=start, high=None if stop is None else stop - 1)
    found = chart_lines(run, [name], points=points, axis=axis)
    if not found:
        raise UnknownKey(unknown_line(run, name))
    return found[0]


def chart_lines(
    run: RunReader, names: Sequence[str], *, points: int, axis: Axis | None = None, statistic: str = "l2",
    smooth: bool = False,
) -> list[ChartLine]:
    """Return lines of a chart, read in one pass, in the order of their names; those that the run lacks are left out.

    Args:
        run: The run.
        names: Names of metrics, or keys.
        points: Maximum number of points of a line.
        axis: The x axis; None: all steps.
        statistic: Statistic of tensors.
        smooth: Return the means, too.

    Raises:
        SettingsError: `points` is less than 2.
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    axis = axis or Axis()
    return [_line(envelope, name, series, axis, run, smooth=smooth) for name, series, envelope in chart_envelopes(
        run, names, points=points, axis=axis, statistic=statistic)]


def chart_envelopes(
    run: RunReader, names: Sequence[str], *, points: int, axis: Axis, statistic: str = "l2"
) -> list[tuple[str, SeriesName, Envelope]]:
    """Return the envelopes of lines, each with its name and series; arguments and errors as for `chart_lines`."""
    if points < 2:
        raise SettingsError(f"points is {points}; a line needs at least 2.")
    known = known_series(run)
    wanted = {name: found for name in names if (found := _resolved(known, name)) is not None}
    envelopes: dict[SeriesName, Envelope] = {}
    for kind in dict.fromkeys(series.key.kind for series in wanted.values()):
        of_kind = [series for series in wanted.values() if series.key.kind is kind]
        shown = statistic if kind in _OF_TENSORS else "value"
        envelopes |= _envelopes(run, kind, {series.key.path for series in of_kind}, shown, points, axis)
    drawn = []
    for name, series in wanted.items():
        recorded = series if series in envelopes else _first_of(envelopes, series, known.get(name))
        if recorded is not None:
            drawn.append((name, recorded, envelopes[recorded]))
    return drawn


def spans_on_axis(envelope: Envelope, axis: Axis, run: RunReader) -> NDArray[np.float64]:
    """Return where each bucket of an envelope starts and ends on the x axis; shape (n, 2)."""
    buckets = envelope.buckets
    if axis.of == STEP:
        return np.stack([buckets["first_step"], buckets["last_step"]], axis=1).astype(np.float64)
    return np.stack([buckets["first_time"], buckets["last_time"]], axis=1) - _begin(axis, run)


def _begin(axis: Axis, run: RunReader) -> float:
    # In the envelopes of `curves`, times are since 1970.
    since_1970 = axis.of == TIME and not axis.log and axis.low is None and axis.high is None
    return run.manifest.created_unix if since_1970 else 0.0


def unknown_line(run: RunReader, name: str) -> str:
    """Return the sentence that a run has no such line, with the nearest name."""
    return f'This run has no "{name}". {nearest(name, known_series(run))}'


def _resolved(known: Mapping[str, PlainName], name: str) -> SeriesName | None:
    metric = known.get(name) or known.get(metric_name(name))
    if metric is not None:
        return SeriesName(*metric_of(metric))
    found = key_and_mode(name)
    return None if found is None else SeriesName(*found, "")


def _first_of(
    envelopes: Iterable[SeriesName], wanted: SeriesName, metric: PlainName | None
) -> SeriesName | None:
    """Return the series of a key that has been recorded in another mode or for another optimizer, training first."""
    if metric is not None:
        return None
    of_key = [series for series in envelopes if series.key == wanted.key]
    return min(of_key, key=lambda series: (series.mode is not wanted.mode, *in_order(series)), default=None)


def _envelopes(
    run: RunReader, kind: Kind, paths: set[str], statistic: str, points: int, axis: Axis
) -> dict[SeriesName, Envelope]:
    start, stop = axis.steps
    whole = axis.low is None and axis.high is None
    if not axis.log and (axis.of == STEP or (axis.of == TIME and whole)):
        return curves(run, kind, paths, statistic, points=points, start=start, stop=stop)
    at = None if axis.of in (STEP, TIME) else _positions_of(run, axis.of)
    found = {}
    for mode, optimizer, (series,) in bundles(run, kind, (statistic,), only=[Key(kind, path) for path in paths]):
        if axis.of == STEP:
            positions = series.steps.astype(np.float64)
        elif at is None:
            positions = series.times - run.manifest.created_unix
        else:
            positions = _at_steps(at, series.steps)
        name = SeriesName(series.key, mode, optimizer)
        found[name] = envelope_of_columns(_between(series, positions, axis), points, log=axis.log)
    return found


def _positions_of(run: RunReader, name: str) -> Series:
    """Return all values of the metric on the x axis.

    Raises:
        UnknownKey: The run has no such metric.
    """
    series = known_series(run).get(name)
    if series is None:
        raise UnknownKey(unknown_line(run, name))
    metric = metric_of(series)
    return run.series(metric.key, mode=metric.mode, optimizer=metric.optimizer or None)


def _at_steps(positions: Series, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the last value of a metric at each step or before it; NaN before the first."""
    order = np.argsort(positions.steps, kind="stable")
    place = np.searchsorted(positions.steps[order], steps, side="right") - 1
    values: NDArray[np.float64] = np.where(place >= 0, positions.values[order][np.maximum(place, 0)], np.nan)
    return values


def _between(series: Series, positions: NDArray[np.float64], axis: Axis) -> Series:
    """Return the points that are shown, by position, with positions as times."""
    shown = np.isfinite(positions)
    if axis.low is not None:
        shown &= positions >= axis.low
    if axis.high is not None:
        shown &= positions <= axis.high
    order = np.flatnonzero(shown)[np.argsort(positions[shown], kind="stable")]
    return Series(series.key, series.statistic, series.steps[order], series.values[order], positions[order])


def _line(
    envelope: Envelope, name: str, series: SeriesName, axis: Axis, run: RunReader, *, smooth: bool
) -> ChartLine:
    line, buckets = envelope.line(), envelope.buckets
    finite = buckets[np.isfinite(buckets["min"])]
    by_step = axis.of == STEP
    begin, extents = _begin(axis, run), spans_on_axis(envelope, axis, run)
    middles = extents.mean(axis=1)
    broken = buckets["nan"] + buckets["posinf"] + buckets["neginf"] > 0
    spans = extents[broken]
    counts = buckets["count"] - buckets["nan"] - buckets["posinf"] - buckets["neginf"]
    return ChartLine(
        name, envelope.statistic, series.mode.value, series.optimizer, count=envelope.count,
        last=float(buckets["last"][np.argmax(buckets["last_step"])]) if len(buckets) else np.nan,
        least=float(finite["min"].min()) if len(finite) else np.nan,
        greatest=float(finite["max"].max()) if len(finite) else np.nan,
        nonfinite=envelope.nonfinite,
        nonfinite_steps=tuple((int(first), int(last)) for first, last in envelope.nonfinite_steps()),
        span=() if not len(buckets) else (float(extents[:, 0].min()), float(extents[:, 1].max())),
        nonfinite_at=() if by_step else tuple((float(first), float(last)) for first, last in spans),
        steps=tuple(line.steps.tolist()), positions=() if by_step else tuple((line.times - begin).tolist()),
        values=tuple(line.values.tolist()),
        mean_at=tuple(middles.tolist()) if smooth else (),
        means=tuple(np.where(counts > 0, buckets["mean"], np.nan).tolist()) if smooth else (),
        mean_counts=tuple(buckets["count"].tolist()) if smooth else (),
    )
