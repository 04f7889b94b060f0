"""Lines of charts: few points, with the true extremes of the part that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.errors import UnknownKey, nearest
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.reading.bundle import optimizers_of
from barograph.runs.reading.envelope import Envelope
from barograph.runs.reading.metrics import HYPERPARAMETER, Metric, metric_name, metrics_in, series_named
from barograph.runs.reading.reader import RunReader


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
        steps, times, values: Points to draw, times in seconds since 1970: the minimum and the maximum of each part of
            the line. NaN interrupts it.
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
    steps: tuple[int, ...]
    times: tuple[float, ...]
    values: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def chart_names(run: RunReader) -> list[str]:
    """Return the names of the plain numbers of a run for `chart_line`: losses, logged numbers, learning rates.

    Raises:
        StoreError: The store cannot be read.
    """
    known = metrics_in(run)
    # The only loss is known by the name of its key, too; and the total of one loss is that loss.
    twins = {metric.name for name, metric in known.items() if metric.name != name}
    losses: dict[tuple[Mode, str], list[Metric]] = {}
    for metric in known.values():
        if metric.key.kind is Kind.LOSS:
            losses.setdefault((metric.mode, metric.optimizer), []).append(metric)
    for several in losses.values():
        totals = [metric for metric in several if metric.key.path == "total"]
        if totals and len({metric.key for metric in several}) == 2:
            twins |= {metric.name for metric in several if metric.key.path != "total"}
    names = [name for name, metric in known.items()
             if name not in twins and not metric.key.path.startswith(HYPERPARAMETER)]
    return [*names, *map(str, run.keys(Kind.LEARNING_RATE))]


def chart_line(
    run: RunReader, name: str, *, points: int, start: int | None = None, stop: int | None = None
) -> ChartLine:
    """Return one line of a chart.

    Args:
        run: The run.
        name: Name of a metric, or a key; of a tensor, its norm is drawn.
        points: Maximum number of points.
        start, stop: Only steps >= start, < stop.

    Raises:
        UnknownKey: The run has no such metric or key.
        StoreError: The store cannot be read.
    """
    known = metrics_in(run)
    metric, statistic = known.get(name) or known.get(metric_name(name)), "value"
    if metric is None:
        found = series_named(run, name)
        if found is None:
            raise UnknownKey(f'This run has no "{name}". {nearest(name, known)}')
        key, statistic, mode = found
        metric = Metric(key, mode, optimizers_of(run, key.kind)[0])
    envelope = run.curve(metric.key, statistic, points=points, mode=metric.mode, optimizer=metric.optimizer or None,
                         start=start, stop=stop)
    return _line(envelope, name, metric.mode, metric.optimizer)


def _line(envelope: Envelope, name: str, mode: Mode, optimizer: str) -> ChartLine:
    line, buckets = envelope.line(), envelope.buckets
    finite = buckets[np.isfinite(buckets["min"])]
    return ChartLine(
        name, envelope.statistic, mode.value, optimizer, count=envelope.count,
        last=float(buckets["last"][-1]) if len(buckets) else np.nan,
        least=float(finite["min"].min()) if len(finite) else np.nan,
        greatest=float(finite["max"].max()) if len(finite) else np.nan,
        nonfinite=envelope.nonfinite,
        nonfinite_steps=tuple((int(first), int(last)) for first, last in envelope.nonfinite_steps()),
        steps=tuple(line.steps.tolist()), times=tuple(line.times.tolist()), values=tuple(line.values.tolist()),
    )
