"""Runs beside each other, for programs: in what they differ, which group is better, their curves together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.errors import SettingsError
from barograph.experiments.comparing import Comparison, compared
from barograph.experiments.component import Component
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement, judged
from barograph.experiments.table_curves import Curves, curves_of


def compare(*components: Component, statistics: Sequence[str] = ("last", "min", "max")) -> Comparison:
    """Return in what components differ: parameters, code, packages, data, tags, findings and metrics.

    Args:
        components: At least two, as `Component.load`, `Component.search` and `list_runs` give them.
        statistics: Of metrics.

    Raises:
        SettingsError: There are fewer than two; or one is no component.
    """
    items = _items(components)
    return compared(items, statistics=statistics)


def judge(
    components: Iterable[Component], by: str, metric: str, *, less_is_better: bool | None = None, level: float = 0.95,
    method: str = "t",
) -> Judgement:
    """Return groups of components, the best first, and whether it is better than the next or may be so by chance.

    Args:
        components: Those that have the same value of `by` are one group, and differ in their seeds.
        by: `params.NAME`, `tags.NAME`, `trial` or `experiment`; several with commas between.
        metric: `NAME.STATISTIC`; without a statistic the last value.
        less_is_better: Of the metric; None: of losses and errors, by their names.
        level: Confidence of the intervals, between 0 and 1.
        method: "t" (Welch's interval) or "bootstrap".

    Raises:
        SettingsError: `by` tells no groups apart; there is no such method or level; or one is no component.
        UnknownName: No component has the metric.
    """
    return judged(_items(components), by, metric, less_is_better=less_is_better, level=level, method=method)


def curves(components: Iterable[Component], metric: str, along: str = "step", *, points: int | None = None) -> Curves:
    """Return a metric of several runs over the same axis.

    Args:
        components: Runs; those without the metric, or whose records are gone, stand in `without`.
        metric: Its name, without a statistic.
        along: "step"; "time": seconds since its first number; "epoch": what the script logged as `epoch` last before.
        points: At most so many of each, to be drawn, with the true extremes among them; None: all.

    Raises:
        SettingsError: There is no such way; or one is no component.
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
