"""Groups of the runs that a search finds: mean, interval, best run, findings, and the verdict of `judged`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection

from barograph.errors import UnknownName, nearest
from barograph.experiments.comparing import grouped, metric_and_statistic
from barograph.experiments.independence import SeriesOf
from barograph.experiments.item import Item, items_by_id
from barograph.experiments.judging import Group, Judgement, judged
from barograph.experiments.run_listing import severity_rank
from barograph.experiments.verdict import Verdict, verdict
from barograph.model.finding import FindingState
from barograph.model.plain import plain
from barograph.queries.titles import rule_in_words

_MOST_REPEATS = 5
_MOST_ASKED = 200
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """An open finding in a group.

    Attributes:
        rule, severity: As in the runs.
        runs: Number of runs that have it.
        places: URLs of the first of these.
    """

    rule: str
    severity: str
    runs: int
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs with the same value of the grouping.

    Attributes:
        group: Mean, interval and independent results, as `judged` has them.
        best_place, best_name, best: Run with the best value of the metric, and that value; "" and NaN if all are NaN.
        findings: Open findings, worst first.
        behind: Comparison of the group before with this one; None for the first.
    """

    group: Group
    best_place: str
    best_name: str
    best: float
    findings: tuple[GroupFinding, ...]
    behind: Verdict | None


@dataclass(frozen=True, slots=True)
class RunGroups:
    """Groups of runs, best first.

    Attributes:
        judgement: Whether the first group is better than the second, as `barograph compare` says it.
        groups: The first groups.
        count: Number of groups.
        without: Number of runs without the metric, which are in no group.
    """

    judgement: Judgement
    groups: tuple[RunGroup, ...]
    count: int
    without: int

    def to_json(self, key_of: Callable[[str], str] = str) -> dict[str, Any]:
        """Return it as strict JSON data, with runs by the keys that `key_of` returns for their places."""
        found = self.judgement
        data: dict[str, Any] = plain({
            "by": found.by, "metric": found.metric, "greater_is_better": found.greater_is_better, "level": found.level,
            "verdict": found.verdict, "sentence": found.sentence,
            "groups": [_to_json(group, key_of) for group in self.groups], "count": self.count,
            "without": self.without,
        })
        return data


def _to_json(found: RunGroup, key_of: Callable[[str], str]) -> dict[str, Any]:
    group = found.group
    return {
        "name": group.name, "mean": group.mean, "low": group.low, "high": group.high, "runs": group.runs,
        "independent": len(group.values), "counted": group.counted, "repeats": group.repeats[:_MOST_REPEATS],
        "differs": group.differs, "best_name": found.best_name, "best": found.best,
        "best_run": key_of(found.best_place) if found.best_place else "", "behind": found.behind,
        "findings": [{"rule": item.rule, "words": rule_in_words(item.rule), "severity": item.severity,
                      "runs": item.runs, "some": [key_of(place) for place in item.places]} for item in found.findings],
    }


def run_groups(
    connection: Connection, ids: Sequence[int], by: str, metric: str, *, less_is_better: bool | None = None,
    series_of: SeriesOf | None = None, most: int = 200,
) -> RunGroups:
    """Return the groups of runs, best first.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the runs.
        by, metric, less_is_better, series_of: As in `judged`.
        most: Maximum number of groups.

    Raises:
        SettingsError: `by` is invalid.
        UnknownName: No run has the metric, or what `by` names.
    """
    name, statistic = metric_and_statistic(metric)
    items = _items(connection, ids, name)
    found = judged(items, by, metric, less_is_better=less_is_better, series_of=series_of)
    members = grouped(items, by, name)
    first = found.groups[:most]
    behind = [None, *(_between(*pair, found) for pair in pairwise(first))]

    def value(item: Item) -> float:
        return float(getattr(item.metrics[name], statistic))

    groups = tuple(_group(group, members[group.name], value, found.greater_is_better, worse)
                   for group, worse in zip(first, behind, strict=True))
    return RunGroups(found, groups, len(found.groups), sum(name not in item.metrics for item in items))


def members_of_group(
    connection: Connection, ids: Sequence[int], by: str, metric: str, group: str
) -> list[int]:
    """Return the row numbers of the runs in a group, in the order of `ids`; other arguments and errors as `run_groups`.

    Args:
        group: Name of the group.

    Raises:
        UnknownName: No run is in such a group.
    """
    name, _ = metric_and_statistic(metric)
    items = _items(connection, ids, name)
    groups = grouped(items, by, name) if items else {}  # a search may find nothing
    if group not in groups:
        raise UnknownName(f'There is no group "{group}". {nearest(group, groups)}')
    members = set(map(id, groups[group]))
    return [number for number, item in zip(ids, items, strict=True) if id(item) in members]


def _items(connection: Connection, ids: Sequence[int], metric: str) -> list[Item]:
    items = items_by_id(connection, ids, metrics=[metric])
    if any(metric in item.metrics for item in items):
        return items
    return items_by_id(connection, ids[:_MOST_ASKED])  # with all metrics, to suggest the nearest


def _between(better: Group, worse: Group, found: Judgement) -> Verdict:
    return verdict(better.values, worse.values, greater_is_better=found.greater_is_better, level=found.level)


def _group(
    group: Group, members: Sequence[Item], value: Callable[[Item], float], greater: bool, behind: Verdict | None
) -> RunGroup:
    known = [item for item in members if value(item) == value(item)]
    best = (max if greater else min)(known, key=value) if known else None
    return RunGroup(group, best.facts["place"] if best else "", best.name if best else "",
                    value(best) if best else float("nan"), _findings(members), behind)


def _findings(members: Iterable[Item]) -> tuple[GroupFinding, ...]:
    places: dict[tuple[str, str], list[str]] = {}
    for item in members:
        for key in {(found.rule, found.severity) for found in item.findings if found.state == FindingState.OPEN}:
            places.setdefault(key, []).append(item.facts["place"])
    return tuple(GroupFinding(rule, severity, len(of), tuple(of[:_MOST_NAMED])) for (rule, severity), of in sorted(
        places.items(), key=lambda pair: (severity_rank(pair[0][1]), -len(pair[1]), pair[0])))
