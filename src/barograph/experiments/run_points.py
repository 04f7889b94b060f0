"""Columns of all runs that a search finds, for scatter plots, parallel coordinates and importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from barograph.errors import SettingsError
from barograph.experiments.comparing import metric_and_statistic
from barograph.experiments.importance import Importance, importances
from barograph.experiments.run_columns import COLOR, color_in
from barograph.experiments.tabulating import component_table

MOST_RUNS = 20_000
"""Maximum number of runs of a chart."""


@dataclass(frozen=True, slots=True)
class RunPoints:
    """Columns of runs.

    Attributes:
        count: Number of runs that the search finds.
        uids, places, names, colors: ID, URL, name and chosen color of each run of the chart.
        columns: Name to one value per run; None if it has none.
    """

    count: int
    uids: tuple[str, ...]
    places: tuple[str, ...]
    names: tuple[str, ...]
    colors: tuple[str, ...]
    columns: dict[str, tuple[Any, ...]]


def run_points(connection: Connection, ids: Sequence[int], columns: Sequence[str]) -> RunPoints:
    """Return columns of runs.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the runs; the first `MOST_RUNS` are used.
        columns: Names of columns, as in `RunColumn`.
    """
    table = component_table(connection, ids[:MOST_RUNS])

    def values(name: str) -> tuple[Any, ...]:
        try:
            return tuple(table.columns[name])
        except KeyError:
            return (None,) * len(table)

    return RunPoints(len(ids), values("uid"), values("place"), values("name"),
                     tuple(map(color_in, values(COLOR))), {name: values(name) for name in columns})


@dataclass(frozen=True, slots=True)
class RunImportances:
    """How much a metric of runs depends on their parameters.

    Attributes:
        metric: `NAME.STATISTIC`.
        runs: Number of runs with the metric.
        found: Most important first.
    """

    metric: str
    runs: int
    found: tuple[Importance, ...]


def run_importances(connection: Connection, ids: Sequence[int], metric: str) -> RunImportances:
    """Return how much a metric depends on each parameter of runs.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the runs; the first `MOST_RUNS` are used.
        metric: `NAME.STATISTIC`; without a statistic, the last value.

    Raises:
        SettingsError: No run has the metric.
    """
    name, statistic = metric_and_statistic(metric)
    table = component_table(connection, ids[:MOST_RUNS], statistics=[statistic])
    try:
        values = table.columns[f"metrics.{name}.{statistic}"]
    except KeyError:
        raise SettingsError(f'No run here has a metric "{name}".') from None
    parameters = {column.removeprefix("params."): table.columns[column] for column in table.columns.before
                  if column.startswith("params.")}
    known = sum(value is not None and value == value for value in values)
    return RunImportances(f"{name}.{statistic}", known, tuple(importances(values, parameters)))
