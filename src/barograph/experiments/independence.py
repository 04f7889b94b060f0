"""Independent results among runs: runs that repeat another one, or share its seed, count once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import StoreError, UnknownKey
from barograph.experiments.curves import metric_series, run_of
from barograph.experiments.item import Item
from barograph.model.items import MetricSummary, Relation

_SEEDS = ("seed", "random_state", "fold", "split")
"""Parts of parameter names that set a seed or a data split."""
_LEAST_POINTS = 3
"""This many equal values in a row are no coincidence."""

Values = NDArray[np.float64]
SeriesOf = Callable[[Item, str], Values]


@dataclass(slots=True)
class Independent:
    """One result: a run, and the runs that count with it.

    Attributes:
        runs: Their mean is the result.
        repeats: A sentence for each run that is merged with another.
    """

    runs: list[Item]
    repeats: list[str] = field(default_factory=list)


def independent_results(items: Iterable[Item], metric: str, series_of: SeriesOf | None = None) -> list[Independent]:
    """Return the independent results among runs of one group.

    Args:
        items: The runs.
        metric: Name without a statistic.
        series_of: Reads a metric; None: from the records of the run.
    """
    read = series_of or recorded_series
    found = _without_reruns(sorted(items, key=lambda item: item.facts["created_unix"]))
    return _by_seed(_without_prefixes(found, metric, read))


def recorded_series(item: Item, metric: str) -> Values:
    """Return a metric from the records of a run; empty if it has none."""
    run = run_of(item)
    try:
        return metric_series(run, metric)[1] if run is not None else np.empty(0)
    except (UnknownKey, StoreError):
        return np.empty(0)  # without records, no repeat can be shown


def _without_reruns(items: Sequence[Item]) -> list[Independent]:
    origins = {item.uid: target for item in items for relation, target in item.relations
               if relation == Relation.DERIVED_FROM}
    found: dict[str, list[Independent]] = {}
    for item in items:
        alike = found.setdefault(_first_origin(item.uid, origins), [])
        same = next((one for one in alike if one.runs[0].parameters == item.parameters), None)
        if same is None:
            alike.append(Independent([item]))
        else:
            same.repeats.append(f"{item.name} counted with {same.runs[0].name} (a rerun)")
    return [one for several in found.values() for one in several]


def _first_origin(uid: str, origins: Mapping[str, str]) -> str:
    seen = [uid]
    while (origin := origins.get(seen[-1])) is not None and origin not in seen:
        seen.append(origin)
    return seen[-1]


def _without_prefixes(found: list[Independent], metric: str, read: SeriesOf) -> list[Independent]:
    kept: set[int] = set()
    series: dict[str, Values] = {}

    def of(item: Item) -> Values:
        if item.uid not in series:
            series[item.uid] = read(item, metric)
        return series[item.uid]

    longest_first = sorted(found, key=lambda one: -one.runs[0].metrics[metric].count)
    summaries = _Summaries([one.runs[0].metrics[metric] for one in longest_first])
    for at, one in enumerate(longest_first):
        item = one.runs[0]
        longer = next((longest_first[other] for other in summaries.may_repeat(at)
                       if _is_prefix(of(item), of(longest_first[other].runs[0]))), None)
        if longer is None:
            kept.add(id(one))
            summaries.keep(at)
        else:
            longer.repeats += [*one.repeats, f"{item.name} counted with {longer.runs[0].name} (same values)"]
    return [one for one in found if id(one) in kept]


class _Summaries:
    """Summaries of one metric of several runs, longest first; they save most reads of series."""

    def __init__(self, summaries: Sequence[MetricSummary]) -> None:
        self._count, self._first = (np.array([getattr(one, name) for one in summaries], np.int64)
                                    for name in ("count", "first_step"))
        self._min, self._max, self._last = (np.array([getattr(one, name) for one in summaries], np.float64)
                                            for name in ("min", "max", "last"))
        self._kept = np.zeros(len(summaries), np.bool_)

    def keep(self, at: int) -> None:
        """Let later series be compared with this one."""
        self._kept[at] = True

    def may_repeat(self, at: int) -> list[int]:
        """Return the kept series of which this one may be a prefix, in order."""
        if self._count[at] < _LEAST_POINTS:
            return []
        within = (self._min[:at] <= self._min[at]) & (self._max[:at] >= self._max[at])
        last, lasts = self._last[at], self._last[:at]
        equal = (self._min[:at] == self._min[at]) & (self._max[:at] == self._max[at]) & (
            np.isnan(lasts) if np.isnan(last) else lasts == last)
        same_length = self._count[:at] == self._count[at]
        found = self._kept[:at] & (self._first[:at] == self._first[at]) & within & (equal | ~same_length)
        return [int(place) for place in np.flatnonzero(found)]


def _is_prefix(shorter: Values, longer: Values) -> bool:
    return len(shorter) >= _LEAST_POINTS and np.array_equal(shorter, longer[: len(shorter)], equal_nan=True)


def _by_seed(found: list[Independent]) -> list[Independent]:
    by_seed: dict[Any, Independent] = {}
    for one in found:
        seeds = seeds_of(one.runs[0])
        key = repr(seeds) if seeds else one.runs[0].uid
        if key not in by_seed:
            by_seed[key] = one
            continue
        first = by_seed[key]
        first.repeats += [*one.repeats, f"{one.runs[0].name} counted with {first.runs[0].name} "
                                        f"(same {', '.join(f'{name}: {value}' for name, value in seeds)})"]
        first.runs += one.runs
    return list(by_seed.values())


def seeds_of(item: Item) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of a run that set a seed or a data split."""
    return tuple(sorted(_seeds(item.parameters)))


def _seeds(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if any(part in name.lower() for part in _SEEDS):
            yield name, value
