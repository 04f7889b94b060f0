"""The names that charts can be drawn of, sorted, so that a page lists a hundred thousand of them in parts."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.errors import SettingsError
from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.format.curves_file import SeriesName
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.inventory import natural_order
from barograph.runs.reading.metrics import HYPERPARAMETER, series_by_name
from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import RunReader

MOST_ROWS = 200
"""Maximum number of rows of an answer."""

_TENSORS = (Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.OUTPUT, Kind.INPUT,
            Kind.OPTIMIZER_STATE, Kind.CUSTOM)
_OTHERS = (Kind.LEARNING_RATE, Kind.TIME, Kind.MACHINE)
_PART = re.compile(r"[/.:]")
_OF_A_SET = re.compile(r"^(?:eval|val|valid|validation|train|training|test)[_/.]")
_SETS = ("eval", "val", "train", "test")
"""Beginnings of these, which are found in a fraction of the time."""
_LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class ChartGroup:
    """A chart: a metric and its twins of other data sets, such as loss and eval_loss.

    Attributes:
        title: Name of the metric.
        names: Names of its lines, the metric itself first.
    """

    title: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChartList:
    """Charts of plain numbers.

    Attributes:
        count: Number of all charts that match.
        charts: The first of them, pinned ones first, at most `MOST_ROWS`.
        pinned: Number of pinned ones among them.
    """

    count: int
    charts: tuple[ChartGroup, ...]
    pinned: int

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        # Not by `plain`, which copies each of the groups, of which there are many in each of many runs.
        return {"count": self.count, "pinned": self.pinned,
                "charts": [{"title": group.title, "names": list(group.names)} for group in self.charts]}


@dataclass(frozen=True, slots=True)
class Branch:
    """Names with a common prefix, or one name.

    Attributes:
        name: The prefix, or the name.
        count: Number of names; 0 if `name` itself is one.
    """

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Tree:
    """One level of the names.

    Attributes:
        count: Number of all names below the prefix that match.
        rows: The level, at most `MOST_ROWS`.
        left_out: Number of rows left out.
    """

    count: int
    rows: tuple[Branch, ...]
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def known_series(run: RunReader) -> Mapping[str, SeriesName]:
    """Return the metrics of a run by name, see `series_by_name`."""
    return run.once("metrics", lambda: series_by_name(run))


def chart_names(run: RunReader) -> list[str]:
    """Return the names of the plain numbers of a run for `chart_line`: losses, logged numbers, learning rates.

    Raises:
        StoreError: The store cannot be read.
    """
    return list(run.once("chart names", lambda: _chart_names(run)))


def chart_list(run: RunReader, search: str = "", *, pinned: Sequence[str] = (), offset: int = 0) -> ChartList:
    """Return the charts of plain numbers.

    Args:
        run: The run.
        search: Regular expression for titles and names; "": all.
        pinned: Titles of charts that come first.
        offset: Number of charts to skip.

    Raises:
        SettingsError: `search` is not a regular expression.
        StoreError: The store cannot be read.
    """
    groups = run.once("chart groups", lambda: _groups(chart_names(run)))
    matches = _pattern(search)
    found = {title: None for title, names in groups.items() if not search or any(map(matches, (title, *names)))}
    first = [title for title in pinned if title in found]
    chosen = set(first)
    order = [*first, *(title for title in found if title not in chosen)]
    shown = order[offset:offset + MOST_ROWS]
    return ChartList(len(order), tuple(ChartGroup(title, groups[title]) for title in shown),
                     sum(title in chosen for title in shown))


def name_tree(run: RunReader, prefix: str = "", search: str = "") -> Tree:
    """Return one level of everything that a chart can show: numbers, and tensors by their norm.

    Args:
        run: The run.
        prefix: Beginning of the names, as `Branch.name`.
        search: Regular expression: all matching names in one level; "": no search.

    Raises:
        SettingsError: `search` is not a regular expression.
        StoreError: The store cannot be read.
    """
    names = run.once("all names", lambda: _all_names(run))
    first = bisect_left(names, prefix)
    stop = bisect_left(names, prefix + "\U0010ffff", first)
    if search:
        matches = _pattern(search)
        found = [name for name in names[first:stop] if matches(name)]
        return Tree(len(found), tuple(Branch(name, 0) for name in found[:MOST_ROWS]), max(0, len(found) - MOST_ROWS))
    rows: list[Branch] = []
    at = first
    while at < stop:
        part = _PART.search(names[at], len(prefix))
        branch = names[at][:part.end()] if part else names[at]
        after = bisect_left(names, branch + "\U0010ffff", at, stop) if part else at + 1
        # A branch of one name is that name.
        rows.append(Branch(names[at], 0) if after == at + 1 else Branch(branch, after - at))
        at = after
    shown = rows[:MOST_ROWS]
    return Tree(stop - first, tuple(sorted(shown, key=lambda row: natural_order(row.name))), len(rows) - len(shown))


def _pattern(search: str) -> Any:
    try:
        return re.compile(search[:_LONGEST_PATTERN], re.IGNORECASE).search
    except re.error as error:
        raise SettingsError(f"Not a regular expression: {error}.") from None


def _chart_names(run: RunReader) -> list[str]:
    known = known_series(run)
    # The only loss is known by the name of its key, too; and the total of one loss is that loss.
    losses: dict[tuple[str, str], dict[SeriesName, list[str]]] = {}
    for name, series in known.items():
        if series.kind == Kind.LOSS:
            losses.setdefault((series.mode, series.optimizer), {}).setdefault(series, []).append(name)
    names = []
    for _, several in sorted(losses.items(), key=lambda item: item[0][0] != Mode.TRAIN):
        total = next((series for series in several if series.path == "total"), None)
        shown = [total] if total is not None and len(several) == 2 else [*several]
        names += [min(several[series], key=len) for series in shown]
    names += sorted(name for name, series in known.items()
                    if series.kind == Kind.SCALAR and not series.path.startswith(HYPERPARAMETER))
    return [*names, *_plain_names(run, (Kind.LEARNING_RATE,))]


def _plain_names(run: RunReader, kinds: Sequence[Kind]) -> list[str]:
    return sorted({f"{name.kind}:{name.path}" for worker in workers_in(run) for name in run.condensed_names(worker)
                   if name.kind in kinds})


def _all_names(run: RunReader) -> list[str]:
    tensors: list[str] = []
    for kind in _TENSORS:
        paths = dictionary_column(run.arrow(kind, columns=("path",)), "path")
        tensors += [f"{kind.value}:{paths.texts[code]}" for code in np.unique(paths.codes).tolist()]
    rate = f"{Kind.LEARNING_RATE.value}:"
    metrics = (name for name in chart_names(run) if not name.startswith(rate))
    return sorted({*metrics, *_plain_names(run, _OTHERS), *tensors})


def _groups(names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the names by the metric that they are of.

    Example:
        >>> _groups(["loss", "acc", "eval_loss", "val/acc", "test/f1"])
        {'loss': ('loss', 'eval_loss'), 'acc': ('acc', 'val/acc'), 'f1': ('test/f1',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        title = _OF_A_SET.sub("", name) if name.startswith(_SETS) else name
        found[title] = (*found.get(title, ()), name)
    titles = sorted(found)
    losses = [title for title in titles if title.partition(".")[0] == "loss"]
    return {title: _named_first(title, found[title]) for title in dict.fromkeys([*losses, *titles])}


def _named_first(title: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return names if len(names) == 1 else tuple(sorted(names, key=lambda name: name != title))
