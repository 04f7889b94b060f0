"""Groups of runs, and whether the best group is better than the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from barograph.experiments.comparing import grouped, metric_and_statistic
from barograph.experiments.independence import SeriesOf, independent_results
from barograph.experiments.item import Item
from barograph.experiments.verdict import Verdict, interval, verdict

_LOWER = ("loss", "error", "err", "perplexity", "mse", "mae", "rmse")


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that have the same value of what tells groups apart.

    Attributes:
        name: That value.
        values: The independent results: runs that repeat one another, or share a seed, are one.
        mean, low, high: Of the values, and the interval of the mean; NaN where there is none.
        runs: How many runs there are.
        repeats: A sentence for each run that counts with another.
        differs: Parameters in which the runs differ.
    """

    name: str
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    runs: int = 0
    repeats: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()

    @property
    def counted(self) -> str:
        """How many of its runs count, for people: "3", or "1 of 3"."""
        return f"{self.runs}" if len(self.values) == self.runs else f"{len(self.values)} of {self.runs}"


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """Groups of runs, and whether the best is better than the next.

    Attributes:
        by: What tells them apart.
        metric: What counts.
        greater_is_better: Of it; else less is.
        level: Confidence of the intervals.
        groups: The best first.
        verdict: On the first two; None where there is one group alone.
    """

    by: str
    metric: str
    greater_is_better: bool
    level: float
    groups: tuple[Group, ...]
    verdict: Verdict | None

    def __repr__(self) -> str:
        best = f", {self.groups[0].name} first, {self.verdict.outcome}" if self.verdict is not None else ""
        return f"Judgement({self.metric} by {self.by}, {len(self.groups)} groups{best})"


def judged(
    items: Sequence[Item], by: str, metric: str, *, less_is_better: bool | None = None, level: float = 0.95,
    method: str = "t", series_of: SeriesOf | None = None,
) -> Judgement:
    """Return groups of components, the best first, and whether it is better than the next.

    Args:
        items: The components; those without the metric are left out.
        by: As of `grouped`.
        metric: `NAME.STATISTIC`; without a statistic the last value.
        less_is_better: Of the metric; None: of losses and errors, by their names.
        level, method: As of `verdict`.
        series_of: As of `independent_results`.

    Raises:
        SettingsError: `by` tells no groups apart; there is no such method or level.
        UnknownName: No component has the metric, or what `by` names.
    """
    greater = not is_less_better(metric, less_is_better)
    name, statistic = metric_and_statistic(metric)
    groups = [_group(called, members, name, statistic, level, series_of)
              for called, members in grouped(items, by, name).items()]
    groups.sort(key=lambda group: (group.mean != group.mean, -group.mean if greater else group.mean))
    between = verdict(groups[0].values, groups[1].values, greater_is_better=greater, level=level, method=method) if (
        len(groups) > 1) else None
    return Judgement(by, metric, greater, level, tuple(groups), between)


def _group(
    called: str, members: Sequence[Item], metric: str, statistic: str, level: float, series_of: SeriesOf | None
) -> Group:
    results = independent_results(members, metric, series_of)
    values = tuple(fmean(float(getattr(run.metrics[metric], statistic)) for run in one.runs) for one in results)
    names = sorted({name for item in members for name in item.parameters})
    return Group(called, values, *interval(values, level), len(members),
                 tuple(sentence for one in results for sentence in one.repeats),
                 tuple(name for name in names if len({repr(item.parameters.get(name)) for item in members}) > 1))


def is_less_better(metric: str, said: bool | None = None) -> bool:
    """Return whether less of a metric is better: as somebody said, else by its name.

    Example:
        >>> is_less_better("val_loss.min"), is_less_better("acc"), is_less_better("acc", True)
        (True, False, True)
    """
    return said if said is not None else any(word in metric.lower() for word in _LOWER)
