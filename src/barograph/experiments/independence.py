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
from barograph.model.items import Relation

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
    kept: list[Independent] = []
    series: dict[str, Values] = {}

    def of(item: Item) -> Values:
        if item.uid not in series:
            series[item.uid] = read(item, metric)
        return series[item.uid]

    for one in sorted(found, key=lambda one: -_count(one.runs[0], metric)):
        item = one.runs[0]
        longer = next((other for other in kept if _may_repeat(item, other.runs[0], metric)
                       and _is_prefix(of(item), of(other.runs[0]))), None)
        if longer is None:
            kept.append(one)
        else:
            longer.repeats += [*one.repeats, f"{item.name} counted with {longer.runs[0].name} (same values)"]
    return [one for one in found if one in kept]


def _count(item: Item, metric: str) -> int:
    return item.metrics[metric].count


def _may_repeat(shorter: Item, longer: Item, metric: str) -> bool:
    """Return whether one metric may be a prefix of the other, by their summaries; saves most reads."""
    one, other = shorter.metrics[metric], longer.metrics[metric]
    return (_LEAST_POINTS <= one.count <= other.count and one.first_step == other.first_step
            and one.min >= other.min and one.max <= other.max)


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
