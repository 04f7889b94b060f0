"""What a page of a comparison says: in what runs differ, their curves over one another, and what groups come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from barograph.errors import UnknownKey
from barograph.experiments.comparing import Comparison, group_of
from barograph.experiments.curves import curve_of, run_of
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement
from barograph.runs.reading.reader import Run

MOST_CHARTS = 24
"""Most metrics that have a chart each."""
MOST_LINES = 24
"""Most runs that a chart lays over one another."""


@dataclass(frozen=True, slots=True)
class OverlaidLine:
    """A metric of one run.

    Attributes:
        name: Of the run.
        at: Steps, seconds or epochs; reduced to what a chart can show.
        values: As many.
        first, last, least, greatest: Of all values; least and greatest of those that are finite.
        count: Of all values.
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
        metric: Its name.
        lines: Of the runs that have it.
        without: Names of those that have not.
    """

    metric: str
    lines: tuple[OverlaidLine, ...]
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonContent:
    """What the page says.

    Attributes:
        items: Runs and components that are compared.
        comparison: In what they differ; None for one alone.
        along: What the curves go over: "step", "time" or "epoch".
        overlays: Their curves.
        overlays_left_out: How many metrics more there are.
        lines_left_out: How many runs have no line, since there are so many.
        judged: Groups of them; None where nobody asked.
        sentence: Which group is better, in words; "" where nothing says.
        made_unix: When the page was made.
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
    """Return the metrics of runs laid over one another, and how many more there are.

    Args:
        items: Runs; other components have no curves.
        metric: Only this one; None: those that most runs have first.
        along: See `curve_of`.
        by: What groups are told apart by, whose names then stand before those of runs; "": nothing.

    Raises:
        SettingsError: There is no such way.
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
        raise UnknownKey(f'None of these runs has a metric "{metric}" by {along}.')
    return tuple(overlay for overlay in overlays if overlay.lines), max(0, len(names) - MOST_CHARTS)


def _overlay(metric: str, runs: Sequence[tuple[str, Run | None]], along: str) -> Overlay:
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


def _line(name: str, run: Run, metric: str, along: str) -> OverlaidLine | None:
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
