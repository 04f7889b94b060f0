"""Groups of runs that differ in their seeds, and whether the best is better than the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barograph.experiments.comparing import grouped
from barograph.experiments.item import Item
from barograph.experiments.verdict import Verdict, interval, verdict

_LOWER = ("loss", "error", "err", "perplexity", "mse", "mae", "rmse")


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ in their seeds.

    Attributes:
        name: What they have in common.
        values: What came out.
        mean, low, high: Of the values, and the interval of the mean; NaN where there is none.
    """

    name: str
    values: tuple[float, ...]
    mean: float
    low: float
    high: float


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

    def _repr_html_(self) -> str:
        from barograph.experiments.showing import judgement_html

        return judgement_html(self)


def judged(
    items: Sequence[Item], by: str, metric: str, *, less_is_better: bool | None = None, level: float = 0.95,
    method: str = "t",
) -> Judgement:
    """Return groups of components, the best first, and whether it is better than the next.

    Args:
        items, by, metric: As of `grouped`.
        less_is_better: Of the metric; None: of losses and errors, by their names.
        level, method: As of `verdict`.

    Raises:
        SettingsError: `by` tells no groups apart; there is no such method or level.
        UnknownName: No component has the metric.
    """
    greater = not is_less_better(metric, less_is_better)
    groups = [Group(name, tuple(values), *interval(values, level))
              for name, values in grouped(items, by, metric).items()]
    groups.sort(key=lambda group: (group.mean != group.mean, -group.mean if greater else group.mean))
    between = verdict(groups[0].values, groups[1].values, greater_is_better=greater, level=level, method=method) if (
        len(groups) > 1) else None
    return Judgement(by, metric, greater, level, tuple(groups), between)


def is_less_better(metric: str, said: bool | None = None) -> bool:
    """Return whether less of a metric is better: as somebody said, else by its name.

    Example:
        >>> is_less_better("val_loss.min"), is_less_better("acc"), is_less_better("acc", True)
        (True, False, True)
    """
    return said if said is not None else any(word in metric.lower() for word in _LOWER)
