"""Curves of several runs as one: their mean at each position, and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.queries.chart import Axis, chart_envelopes, spans_on_axis
from barograph.runs.reading.reader import RunReader

_FINER = 4
"""Each run is read in this many times more parts than a band has columns, so that few parts lie in two columns."""


@dataclass(frozen=True, slots=True)
class Part:
    """One line of one run, in parts of one or more points.

    Attributes:
        name, mode: As of `ChartLine`.
        spans: First and last position of each part on the x axis, shape (n, 2).
        means, least, greatest: Of the finite values of each part; NaN without one.
        counts: Number of points of each part.
        broken: Whether a part has a value that is NaN or infinite.
    """

    name: str
    mode: str
    spans: NDArray[np.float64]
    means: NDArray[np.float64]
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]
    counts: NDArray[np.int64]
    broken: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Band:
    """A line of a group of runs.

    A run contributes between its first and its last point; where it has no point, the straight line between its
    neighbors counts. A run does not contribute where its values are NaN or infinite.

    Attributes:
        name, mode: As of `ChartLine`.
        runs: Number of runs that have the line.
        at: Positions on the x axis, ascending.
        mean: Mean of the runs at each position; NaN where no run has a finite value.
        error: Standard error of that mean; NaN where fewer than two runs contribute.
        least, greatest: Extremes of all recorded values of the contributing runs.
        counts: Number of runs that contribute.
        nonfinite: Number of runs with NaN or infinite values.
        nonfinite_at: First and last position of each part in which a run has such values.
        columns: Whether each position stands for a part of the x axis, not for one position that was recorded.
    """

    name: str
    mode: str
    runs: int
    at: tuple[float, ...]
    mean: tuple[float, ...]
    error: tuple[float, ...]
    least: tuple[float, ...]
    greatest: tuple[float, ...]
    counts: tuple[int, ...]
    nonfinite: int
    nonfinite_at: tuple[tuple[float, float], ...]
    columns: bool

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        return {
            "name": self.name, "mode": self.mode, "runs": self.runs, "at": list(self.at), "counts": list(self.counts),
            # There may be thousands. Infinite: the square of a difference is beyond the largest number.
            **{name: [value if isfinite(value) else None for value in getattr(self, name)]
               for name in ("mean", "error", "least", "greatest")},
            "nonfinite": self.nonfinite, "nonfinite_at": [list(span) for span in self.nonfinite_at],
            "columns": self.columns,
        }


def parts_of_run(
    run: RunReader, names: Sequence[str], *, columns: int, axis: Axis, statistic: str = "l2"
) -> list[Part]:
    """Return the lines of a run for `bands`; arguments and errors as of `chart_lines`."""
    found = []
    for name, series, envelope in chart_envelopes(run, names, points=2 * _FINER * columns, axis=axis,
                                                  statistic=statistic):
        buckets = envelope.buckets
        broken = buckets["nan"] + buckets["posinf"] + buckets["neginf"]
        some = buckets["count"] > broken
        found.append(Part(
            name, series.mode.value, spans_on_axis(envelope, axis, run), np.where(some, buckets["mean"], np.nan),
            np.where(some, buckets["min"], np.nan), np.where(some, buckets["max"], np.nan),
            buckets["count"] - broken, broken > 0))
    return found


def bands(parts: Sequence[Sequence[Part]], *, columns: int, log: bool = False) -> list[Band]:
    """Return one band for each name, in the order of the names, training before evaluation.

    Args:
        parts: Lines of each run of the group, see `parts_of_run`.
        columns: Maximum number of positions, unless all runs recorded the same few positions.
        log: Positions are evenly spaced on a logarithmic axis.
    """
    by_name: dict[tuple[str, str], list[Part]] = {}
    for of_run in parts:
        for part in of_run:
            if len(part.spans):
                by_name.setdefault((part.name, part.mode), []).append(part)
    return [_band(members, columns, log) for members in by_name.values()]


def _band(members: Sequence[Part], columns: int, log: bool) -> Band:
    grid, edges = _grid(members, columns, log)
    runs = [_on_grid(part, grid, edges, log) for part in members]
    values, least, greatest = (np.stack([run[place] for run in runs]) for place in range(3))
    counts = np.isfinite(values).sum(axis=0)
    total = np.where(np.isfinite(values), values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.where(counts > 0, total.sum(axis=0) / counts, np.nan)
        squares = np.where(np.isfinite(values), (values - mean) ** 2, 0.0).sum(axis=0)
        error = np.where(counts > 1, np.sqrt(squares / (counts - 1) / counts), np.nan)
    spans = [(float(first), float(last)) for part in members for first, last in part.spans[part.broken]]
    return Band(
        members[0].name, members[0].mode, len(members), _floats(grid), _floats(mean), _floats(error),
        _floats(_extreme(np.fmin, least)), _floats(_extreme(np.fmax, greatest)), tuple(counts.tolist()),
        sum(bool(part.broken.any()) for part in members), tuple(sorted(set(spans))), edges is not None)


def _grid(
    members: Sequence[Part], columns: int, log: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the positions of a band, and the edges of its columns; None if each position was recorded."""
    single = all(bool((part.spans[:, 0] == part.spans[:, 1]).all()) for part in members)
    if single:
        recorded = np.unique(np.concatenate([part.spans[:, 0] for part in members]))
        if len(recorded) <= max(columns, *(len(part.spans) for part in members)):
            return recorded, None
    low, high = (min(float(part.spans[:, 0].min()) for part in members),
                 max(float(part.spans[:, 1].max()) for part in members))
    edges = np.linspace(_placed(low, log), _placed(high, log), columns + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return (np.sinh(middles) if log else middles), edges


def _on_grid(
    part: Part, grid: NDArray[np.float64], edges: NDArray[np.float64] | None, log: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return mean, minimum and maximum of a run at each position; NaN where it does not contribute."""
    middles = part.spans.mean(axis=1)
    if edges is None:
        column = np.searchsorted(grid, middles)
    else:
        column = np.clip(np.searchsorted(edges, _placed(middles, log), side="right") - 1, 0, len(grid) - 1)
    some = np.isfinite(part.means)
    least, greatest = np.full(len(grid), np.nan), np.full(len(grid), np.nan)
    np.fmin.at(least, column, part.least)
    np.fmax.at(greatest, column, part.greatest)
    weight, total = np.zeros(len(grid)), np.zeros(len(grid))
    np.add.at(weight, column[some], part.counts[some])
    np.add.at(total, column[some], part.means[some] * part.counts[some])
    known = np.flatnonzero(weight > 0)
    values = np.full(len(grid), np.nan)
    values[known] = total[known] / weight[known]
    lost = np.zeros(len(grid), bool)
    lost[column[part.broken & ~some]] = True
    for at in np.flatnonzero(np.diff(known) > 1).tolist():
        before, after = known[at], known[at + 1]
        between = slice(before + 1, after)
        if not lost[between].any():
            values[between] = np.interp(grid[between], grid[[before, after]], values[[before, after]])
            least[between] = greatest[between] = values[between]
    return values, least, greatest


def _placed(at: Any, log: bool) -> Any:
    return np.arcsinh(at) if log else at


def _extreme(of: np.ufunc, values: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = of.reduce(values, axis=0)
    return found


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(values.tolist())
