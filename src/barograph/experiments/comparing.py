"""Differences between components: parameters, code, packages, data, tags, findings and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.experiments.item import Item
from barograph.experiments.run_entries import packages_of
from barograph.model.items import STATISTICS
from barograph.model.plain import plain
from barograph.runs.reading.metrics import metric_name


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs between components.

    Attributes:
        name: What differs, such as a parameter's name.
        values: Value of each component, in order; None if it has none.
    """

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Differences between components.

    Attributes:
        names: Names of the components.
        parts: "parameters", "code", "packages", "data", "tags", "findings" and "metrics" to their differences; a part
            without differences is left out.
        same: Number of equal things in each part.
    """

    names: tuple[str, ...]
    parts: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    same: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data

    def __repr__(self) -> str:
        said = ", ".join(f"{len(rows)} {part}" for part, rows in self.parts.items())
        return f"Comparison({', '.join(self.names)}: {said or 'nothing'} differ)"


def without_single_totals(differences: Sequence[Difference]) -> list[Difference]:
    """Return differences of metrics without those of a total loss that has the values of one of its terms.

    Example:
        >>> rows = [Difference("loss.min", (1.0, 2.0)), Difference("loss.cross_entropy.min", (1.0, 2.0))]
        >>> [row.name for row in without_single_totals(rows)]
        ['loss.cross_entropy.min']
    """
    named = [(*metric_and_statistic(row.name), repr(row.values)) for row in differences]  # NaN equals NaN as text
    terms = {(name.partition(".")[0], *rest) for name, *rest in named if "." in name}
    return [row for row, (name, *rest) in zip(differences, named, strict=True)
            if not ((name == "loss" or name.endswith("_loss")) and (name, *rest) in terms)]


_CODE = ("command", "repository", "branch", "commit", "dirty")


def compared(items: Sequence[Item], *, statistics: Sequence[str] = ("last", "min", "max")) -> Comparison:
    """Return the differences between components.

    Args:
        items: At least two.
        statistics: Statistics of each metric to compare.

    Raises:
        SettingsError: There are fewer than two.
        UnknownName: A statistic is unknown.
    """
    if len(items) < 2:
        raise SettingsError("A comparison needs at least two runs or components.")
    for name in statistics:
        if name not in STATISTICS:
            raise UnknownName(f'"{name}" is not a metric statistic. {nearest(name, STATISTICS)}')
    by_part: dict[str, list[Mapping[str, Any]]] = {
        "parameters": [item.parameters for item in items],
        "code": [{name: item.facts[name] for name in _CODE if item.facts[name] not in ("", None)} for item in items],
        "packages": [packages_of(str(item.facts["place"])) for item in items],
        "data": [{link.name: link.digest or link.uri for link in item.inputs} for item in items],
        "tags": [item.tags for item in items],
        "findings": [{f"{found.code} {found.rule}": found.severity for found in item.findings} for item in items],
        "metrics": [{f"{name}.{statistic}": getattr(summary, statistic) for name, summary in item.metrics.items()
                     for statistic in statistics} for item in items],
    }
    parts, same = {}, {}
    for part, tables in by_part.items():
        names = list(dict.fromkeys(name for table in tables for name in table))
        rows = [Difference(name, tuple(table.get(name) for table in tables)) for name in names]
        differing = tuple(row for row in rows if not _alike(row.values))
        same[part] = len(rows) - len(differing)
        if differing:
            parts[part] = differing
    return Comparison(tuple(item.name for item in items), parts, same)


def grouped(items: Sequence[Item], by: str, metric: str) -> dict[str, list[Item]]:
    """Return the components that have a metric, by group.

    Args:
        items: The components; those without the metric are left out.
        by: `params.NAME`, `tags.NAME`, `trial` or `experiment`; separate several with commas.
        metric: Name without a statistic.

    Raises:
        SettingsError: `by` is invalid.
        UnknownName: No component has the metric, or what `by` names; the message suggests the nearest.
    """
    _check_by(items, by)
    groups: dict[str, list[Item]] = {}
    for item in items:
        if metric in item.metrics:
            groups.setdefault(group_of(item, by), []).append(item)
    if not groups:
        known = sorted({known for item in items for known in item.metrics})
        raise UnknownName(f'None of these has a metric "{metric}". {nearest(metric, known)}')
    return groups


def metric_and_statistic(metric: str) -> tuple[str, str]:
    """Return the name of a metric and its statistic; "last" if none is given.

    Example:
        >>> metric_and_statistic("metrics.val.acc.max"), metric_and_statistic("val.acc")
        (('val.acc', 'max'), ('val.acc', 'last'))
        >>> metric_and_statistic("loss:total.min")
        ('loss', 'min')
    """
    text = metric.removeprefix("metrics.")
    name, dot, statistic = text.rpartition(".")
    return (metric_name(name), statistic) if dot and statistic in STATISTICS else (metric_name(text), "last")


def _check_by(items: Sequence[Item], by: str) -> None:
    """Raise UnknownName if no component has a parameter or tag that `by` names."""
    for part in by.split(","):
        kind, _, name = part.strip().partition(".")
        _reader(part.strip())
        known = {known for item in items for known in (item.parameters if kind == "params" else item.tags)}
        if kind in _NAMED and items and name not in known:
            raise UnknownName(f'None of these has a {_NAMED[kind]} "{name}". {nearest(name, sorted(known))}')


_NOT_SET = "not set"
_NAMED = {"params": "parameter", "tags": "tag"}


def group_of(item: Item, by: str) -> str:
    """Return the group of a component; arguments and errors as in `grouped`."""
    return ", ".join(_reader(part.strip())(item) for part in by.split(","))


def _reader(by: str) -> Callable[[Item], str]:
    kind, _, name = by.partition(".")
    readers: Mapping[str, Callable[[Item], str]] = {
        "params": lambda item: str(item.parameters.get(name, _NOT_SET)),
        "tags": lambda item: str(item.tags.get(name, _NOT_SET)),
        "trial": lambda item: item.trials[0].name if item.trials else "",
        "experiment": lambda item: item.trials[0].experiment if item.trials else "",
    }
    if kind not in readers or (kind in ("params", "tags")) != bool(name):
        raise SettingsError(f'Cannot group by "{by}"; use params.NAME, tags.NAME, trial or experiment.')
    return readers[kind]


def _alike(values: Sequence[Any]) -> bool:
    first, *others = values
    if isinstance(first, float) and math.isnan(first):
        return all(isinstance(other, float) and math.isnan(other) for other in others)
    return all(other == first and (other is None) == (first is None) for other in others)
