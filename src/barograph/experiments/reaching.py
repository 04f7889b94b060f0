"""The best value of a metric that runs had reached by some steps, times or epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from barograph.errors import SettingsError
from barograph.experiments.comparing import group_of, metric_and_statistic
from barograph.experiments.curves import best_at, curve_of
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement, is_less_better
from barograph.runs.reading.reader import Run


def reached(
    items: Sequence[Item], metric: str, places: Sequence[float], along: str, less: bool | None, *,
    open_run: Callable[[str], Run],
) -> dict[float, list[float]]:
    """Return for each place the best value that each run had reached there; NaN if it had none.

    Args:
        items: The runs.
        metric: Name of the metric, with or without a statistic.
        places: Steps, seconds or epochs.
        along: "step", "time" or "epoch".
        less: Whether less is better; None: guessed from the name of the metric.
        open_run: Opens the run at a place.

    Raises:
        UnknownKey: A run does not have the metric.
    """
    called = metric_and_statistic(metric)[0]
    greater = not is_less_better(metric, less)
    best = [best_at(curve_of(open_run(str(item.facts["place"])), called, along), places, greater_is_better=greater)
            for item in items]
    return {place: [values[number] for values in best] for number, place in enumerate(places)}


def reached_by_groups(
    items: Sequence[Item], found: Judgement, places: Sequence[float], along: str, *, open_run: Callable[[str], Run]
) -> dict[float, list[float]]:
    """Return for each place the mean of what the runs of each group had reached there; arguments as in `reached`."""
    called, less = metric_and_statistic(found.metric)[0], not found.greater_is_better
    members = {group.name: [item for item in items if called in item.metrics and group_of(item, found.by) == group.name]
               for group in found.groups}
    by_group = [reached(runs, called, places, along, less, open_run=open_run) for runs in members.values()]
    return {place: [_mean_of_known(values[place]) for values in by_group] for place in places}


def places_from_text(text: str) -> list[float]:
    """Return numbers that are separated by commas.

    Raises:
        SettingsError: Something is not a number.

    Example:
        >>> places_from_text("30, 60,90")
        [30.0, 60.0, 90.0]
    """
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SettingsError(f'--at is "{text}"; it must be numbers separated by commas, such as 30,60,90.') from None


def _mean_of_known(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return fmean(known) if known else math.nan
