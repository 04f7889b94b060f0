"""Statistical comparison of groups of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from barograph.experiments.comparing import grouped, metric_and_statistic
from barograph.experiments.independence import SeriesOf, independent_results
from barograph.experiments.item import Item
from barograph.experiments.verdict import Outcome, Verdict, interval, verdict
from barograph.model.plain import plain
from barograph.watch.figures import figure

_LOWER = ("loss", "error", "err", "perplexity", "mse", "mae", "rmse")


@dataclass(frozen=True, slots=True)
class Group:
    """Runs with the same value of the grouping.

    Attributes:
        name: The common value.
        values: Independent results: runs that repeat one another, or share a seed, count once.
        mean, low, high: Mean of the values and its confidence interval; NaN if undefined.
        runs: Number of runs.
        repeats: A sentence for each run that is merged with another.
        differs: Parameters that differ between the runs.
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
        """Number of runs that count, as text: "3", or "1 of 3"."""
        return f"{self.runs}" if len(self.values) == self.runs else f"{len(self.values)} of {self.runs}"


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """Groups of runs, and whether the best differs significantly from the next.

    Attributes:
        by: The grouping.
        metric: The compared metric.
        greater_is_better: Whether more of the metric is better.
        level: Confidence level of the intervals.
        groups: Best first.
        verdict: Comparison of the first two groups; None if there is only one.
    """

    by: str
    metric: str
    greater_is_better: bool
    level: float
    groups: tuple[Group, ...]
    verdict: Verdict | None

    @property
    def sentence(self) -> str:
        """Which of the first two groups is better, by how much, and why; "" if there is one group."""
        found = self.verdict
        if found is None:
            return ""
        first, second = (group.name for group in self.groups[:2])
        sentence = {
            Outcome.ACCEPTED: f"{first} is better than {second}", Outcome.REJECTED: f"{second} is better than {first}",
            Outcome.UNDECIDED: f"no significant difference between {first} and {second}",
        }[found.outcome]
        # "Better by" is positive, also of a loss.
        decided = found.outcome is not Outcome.UNDECIDED
        sign = -1 if decided and found.difference < 0 else 1
        bounds = bounds_in_words(*sorted((sign * found.low, sign * found.high)))
        by = f"{'by' if decided else 'difference'} {figure(sign * found.difference)}"
        by += f", {found.level:.0%} interval {bounds}" if bounds else ""
        return f"{found.outcome}: {sentence} ({by}). {found.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({
            "metric": self.metric, "by": self.by, "greater_is_better": self.greater_is_better, "groups": self.groups,
            "verdict": self.verdict,
        })
        return data

    def __repr__(self) -> str:
        best = f", {self.groups[0].name} first, {self.verdict.outcome}" if self.verdict is not None else ""
        return f"Judgement({self.metric} by {self.by}, {len(self.groups)} groups{best})"


def judged(
    items: Sequence[Item], by: str, metric: str, *, less_is_better: bool | None = None, level: float = 0.95,
    method: str = "t", series_of: SeriesOf | None = None,
) -> Judgement:
    """Return groups of components, best first, and whether the best differs significantly from the next.

    Args:
        items: The components; those without the metric are left out.
        by: As in `grouped`.
        metric: `NAME.STATISTIC`; without a statistic, the last value.
        less_is_better: None: True if the metric's name is that of a loss or an error.
        level, method: As in `verdict`.
        series_of: As in `independent_results`.

    Raises:
        SettingsError: `by`, the method or the level is invalid.
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


def bounds_in_words(low: float, high: float) -> str:
    """Return an interval as text; "" if it is undefined."""
    return "" if low != low else f"{figure(low)} to {figure(high)}"


def is_less_better(metric: str, said: bool | None = None) -> bool:
    """Return whether less of a metric is better: as given, else guessed from its name.

    Example:
        >>> is_less_better("val_loss.min"), is_less_better("acc"), is_less_better("acc", True)
        (True, False, True)
    """
    return said if said is not None else any(word in metric.lower() for word in _LOWER)
