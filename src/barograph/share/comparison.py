"""Content of a comparison page: differences, overlaid curves and statistical comparison of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from barograph.errors import UnknownKey
from barograph.experiments.comparing import Comparison, group_of
from barograph.experiments.curves import curve_of, run_of
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement
from barograph.runs.reading.reader import RunReader

MOST_CHARTS = 24
"""Maximum number of metrics with a chart."""
MOST_LINES = 24
"""Maximum number of runs in a chart."""


@dataclass(frozen=True, slots=True)
class OverlaidLine:
    """Curve of a metric of one run.

    Attributes:
        name: Name of the run.
        at: Steps, seconds or epochs; reduced to what a chart can show.
        values: Values at these positions.
        first, last, least, greatest: Of all values; least and greatest ignore values that are not finite.
        count: Number of all values.
    """

    name: str
    at: tuple[float, ...]
    values: tuple[float, ...]
    first: float
    last: float
    least: float
    greatest: float
    count: int


@dataclass(frozen=True, slots=True)
class Overlay:
    """A metric of several runs.

    Attributes:
        metric: Name of the metric.
        lines: Curves of the runs that have it.
        without: Names of the runs that lack it.
    """

    metric: str
    lines: tuple[OverlaidLine, ...]
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonContent:
    """Content of the page.

    Attributes:
        items: Compared runs and components.
        comparison: Their differences; None for a single one.
        along: Axis of the curves: "step", "time" or "epoch".
        overlays: Their curves.
        overlays_left_out: Number of metrics without a chart.
        lines_left_out: Number of runs without a line.
        judged: Comparison of groups; None if not requested.
        sentence: Its outcome in words; "" if there is none.
        made_unix: Time at which the page was created.
    """

    items: tuple[Item, ...]
    comparison: Comparison | None
    along: str
    overlays: tuple[Overlay, ...]
    overlays_left_out: int
    lines_left_out: int
    judged: Judgement | None
    sentence: str
    made_unix: float


def overlays_of(
    items: Sequence[Item], *, metric: str | None = None, along: str = "step", by: str = ""
) -> tuple[tuple[Overlay, ...], int]:
    """Return the metrics of runs as overlaid curves, and the number of metrics left out.

    Args:
        items: Runs; other components have no curves.
        metric: Only this one; None: the most common first.
        along: See `curve_of`.
        by: Grouping; names of groups are put before those of runs. "": none.

    Raises:
        SettingsError: `along` is unknown.
        UnknownKey: No run has the metric.
    """
    had: dict[str, int] = {}
    for item in items:
        for name in item.metrics:
            had[name] = had.get(name, 0) + 1
    names = [metric] if metric is not None else sorted(had, key=lambda name: (-had[name], name))
    runs = [(f"{group_of(item, by)}: {item.name}" if by else item.name, run_of(item)) for item in items[:MOST_LINES]]
    overlays = [_overlay(name, runs, along) for name in names[:MOST_CHARTS]]
    if metric is not None and not overlays[0].lines:
        raise UnknownKey(f'None of these runs has metric "{metric}" by {along}.')
    return tuple(overlay for overlay in overlays if overlay.lines), max(0, len(names) - MOST_CHARTS)


def _overlay(metric: str, runs: Sequence[tuple[str, RunReader | None]], along: str) -> Overlay:
    lines, without = [], []
    for name, run in runs:
        try:
            line = _line(name, run, metric, along) if run is not None else None
        except UnknownKey:
            line = None
        if line is None:
            without.append(name)
        else:
            lines.append(line)
    return Overlay(metric, tuple(lines), tuple(without))


def _line(name: str, run: RunReader, metric: str, along: str) -> OverlaidLine | None:
    curve = curve_of(run, metric, along)
    if not len(curve.values):
        return None
    drawn = curve.thinned()
    finite = curve.values[np.isfinite(curve.values)]
    return OverlaidLine(
        name, tuple(drawn.at.tolist()), tuple(drawn.values.tolist()), float(curve.values[0]),
        float(curve.values[-1]), float(finite.min()) if len(finite) else float("nan"),
        float(finite.max()) if len(finite) else float("nan"), len(curve.values),
    )
