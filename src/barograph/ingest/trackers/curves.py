"""Converts histories of metrics: each becomes a scalar, losses and learning rates also become steps."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from barograph.ingest.tensorboard.curve import Curve, Line, line_of
from barograph.ingest.tensorboard.gathering import Gathered, sort_lines
from barograph.ingest.tensorboard.naming import Place, Tag, place_of
from barograph.ingest.trackers.foreign import YEAR_9999_UNIX, ForeignSeries
from barograph.model.items import MOST_NAME_CHARS
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

_OF_STEPS = (Kind.LOSS, Kind.LEARNING_RATE)


def gathered_series(series: Mapping[str, ForeignSeries], began_unix: float) -> Gathered:
    """Return the converted metrics of a run.

    Scalars keep all points. A metric whose name is clearly that of a loss or a learning rate, and that has more than
    one step, is also recorded in steps, once per step.

    Args:
        series: Histories by name.
        began_unix: Start time of the run; replaces invalid times.
    """
    whole = Gathered()
    by_step: dict[Tag, Line] = {}
    for name, points in series.items():
        if not len(points.steps):
            continue
        called = _name(name, series, whole)
        times = _times(called, points.times, began_unix, whole)
        kind = Kind.MACHINE if points.of_machine else Kind.SCALAR
        whole.logged[Place(Mode.TRAIN, Key(kind, called))] = Line(points.steps, times, points.values)
        if not points.of_machine and place_of(Tag("", called)).key.kind in _OF_STEPS and _is_counted(points.steps):
            by_step[Tag("", called)] = line_of(_curve(points.steps, times, points.values))
    of_steps = Gathered()
    sort_lines(by_step, of_steps)
    whole.of_steps = of_steps.of_steps
    whole.names = {name: place for name, place in of_steps.names.items() if place in of_steps.of_steps}
    whole.recounted = of_steps.recounted
    return whole


def _name(name: str, series: Mapping[str, ForeignSeries], whole: Gathered) -> str:
    called = " ".join(name.replace("\0", " ").split("\n"))[:MOST_NAME_CHARS].replace("\r", " ")
    called = called.encode("utf-8", "replace").decode()
    if called == name and called.strip():
        return name
    while not called.strip() or called in series:
        called += "_"
    whole.damage.append(f'Metric {name[:60]!r} has an invalid name; renamed to "{called[:60]}".')
    return called


def _times(name: str, times: NDArray[np.float64], began_unix: float, whole: Gathered) -> NDArray[np.float64]:
    known = (times >= 0) & (times < YEAR_9999_UNIX)
    if known.all():
        return times
    whole.damage.append(f'Metric "{name}" has {int((~known).sum()):,} points with invalid times; they are moved to '
                        "the start of the run.")
    return np.where(known, times, began_unix)


def _is_counted(steps: NDArray[np.int64]) -> bool:
    return bool(steps.min() >= 0 and steps.min() != steps.max())


def _curve(steps: NDArray[np.int64], times: NDArray[np.float64], values: NDArray[np.float64]) -> Curve:
    curve = Curve(array("q"), array("d"), array("d"))
    curve.extend(steps, times, values)
    return curve
