"""Comparisons of runs from Python: differences, statistical comparison of groups, aligned curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.errors import SettingsError
from barograph.experiments.comparing import Comparison, compared
from barograph.experiments.component import Component
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement, judged
from barograph.experiments.table_curves import Curves, curves_of


def compare(*components: Component, statistics: Sequence[str] = ("last", "min", "max")) -> Comparison:
    """Return the differences between components: parameters, code, packages, data, tags, findings and metrics.

    Args:
        components: At least two, from `Component.load`, `Component.search` or `list_runs`.
        statistics: Statistics of each metric to compare.

    Raises:
        SettingsError: There are fewer than two, or one is not a component.
    """
    items = _items(components)
    return compared(items, statistics=statistics)


def judge(
    components: Iterable[Component], by: str, metric: str, *, less_is_better: bool | None = None, level: float = 0.95,
    method: str = "t",
) -> Judgement:
    """Return groups of components, best first, and whether the best differs significantly from the next.

    Args:
        components: Those with the same value of `by` form a group, such as runs with different seeds.
        by: `params.NAME`, `tags.NAME`, `trial` or `experiment`; separate several with commas.
        metric: `NAME.STATISTIC`; without a statistic, the last value.
        less_is_better: None: True if the metric's name is that of a loss or an error.
        level: Confidence level of the intervals, between 0 and 1.
        method: "t" (Welch's interval) or "bootstrap".

    Raises:
        SettingsError: `by`, the method or the level is invalid, or one is not a component.
        UnknownName: No component has the metric.
    """
    return judged(_items(components), by, metric, less_is_better=less_is_better, level=level, method=method)


def curves(components: Iterable[Component], metric: str, along: str = "step", *, points: int | None = None) -> Curves:
    """Return a metric of several runs on a common axis.

    Args:
        components: Runs; those without the metric or without records are listed in `without`.
        metric: Name without a statistic.
        along: "step"; "time": seconds since the first value; "epoch": the last logged value of `epoch`.
        points: Maximum number of points per curve, for drawing; extremes are kept. None: all.

    Raises:
        SettingsError: `along` is unknown, or one is not a component.
        UnknownKey: None of them has the metric.
    """
    return curves_of(_items(components), metric, along, points=points)


def _items(components: Iterable[Component]) -> list[Item]:
    items = []
    for component in components:
        if not isinstance(component, Component):
            raise SettingsError(f"{component!r} is not a component. Pass one from Component.load, Component.search "
                                "or list_runs.")
        items.append(component.item)
    return items
