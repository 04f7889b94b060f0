"""Times of queries in a catalog of many components: a table of all, searches, and a long series of one run."""

from __future__ import annotations

import functools
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import barograph
from barograph.experiments.catalog import Catalog
from barograph.experiments.curves import curve_of
from barograph.experiments.tabulating import component_table
from barograph.model.items import STATISTICS, Entry, Verb
from barograph.runs.reading.inventory import inventory
from barograph.tracking import Run
from benchmarks.interleave import interval_of
from benchmarks.tables import Table, note, progress, span_text

_TABLE, _COMPONENTS = "all into a table", "kind = 'component'"
_METRICS = ("loss", "val_loss", "acc", "f1", "auc")
_BATCH, _TOLD = 2_000, 100_000
SEARCHES = {
    "metric and parameter, ordered, first 100":
        "metrics.val_loss.min < 0.3 and params.lr < 0.01 order by metrics.acc.last desc limit 100",
    "a rare parameter and a metric": "params.lr < 0.0001 and metrics.loss.min < 0.5 order by created limit 100",
    "texts, a tag and no finding":
        "params.opt = 'adam' and tags.team = 'vision' and not finding('overfit') order by params.lr limit 100",
    "either of two rare ones": "metrics.val_loss.min < 0.0003 or params.lr < 0.00001 limit 100",
    "part of a name": "name contains '99' order by metrics.acc.max limit 10",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: components with 5 metrics, 5 parameters and 4 tags each, components of a very large
    catalog, points of two series, names in one run, repetitions."""

    components: int = 10_000
    very_many: int = 1_000_000
    points: int = 100_000
    long_points: int = 1_000_000
    names: int = 100_000
    rounds: int = 11


QUICK = Effort(components=2_000, very_many=20_000, points=20_000, long_points=200_000, names=10_000, rounds=5)


def measure_catalog(effort: Effort) -> dict[str, Any]:
    """Return the seconds of each query at each repetition, and of filling the catalog."""
    with (tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as root,
          Catalog(root) as catalog):
        progress(f"catalog: adding {effort.components:,} components")
        begin = time.perf_counter()
        _fill(catalog, effort.components)
        told_secs = time.perf_counter() - begin
        progress(f"catalog: recording a series of {effort.points:,} points")
        url = _recorded(root, "series", effort.points)
        progress(f"catalog: recording a series of {effort.long_points:,} points")
        long_url = _recorded(root, "long", effort.long_points)
        progress(f"catalog: recording a run with {effort.names:,} metric names")
        many_url = _named(root, effort.names)
        one_of_many = f"scalar:{_name(effort.names // 2)}"
        questions: dict[str, Callable[[], int]] = {
            _TABLE: lambda: _table(catalog, _COMPONENTS),
            **_searches(catalog),
            f"a series of {effort.points:,} points": lambda: len(curve_of(barograph.open(url), "loss").values),
            f"a curve of {effort.long_points:,} points, 2,000 to draw": lambda: barograph.open(
                long_url).curve("scalar:loss").count,
            f"one series of {effort.names:,} names": lambda: len(barograph.open(many_url).series(one_of_many)),
            f"one curve of {effort.names:,} names": lambda: barograph.open(many_url).curve(one_of_many).count,
            f"the keys of {effort.names:,} names": lambda: len(barograph.open(many_url).keys()),
            f"the last value of {effort.names:,} names": lambda: len(inventory(barograph.open(many_url))),
        }
        taken, answers = _asked(questions, effort.rounds)
        progress("catalog: adding that run to the catalog")
        catalog.feed()
        beside_taken, beside_answers = _asked(_beside_many_names(catalog, effort.names), effort.rounds)
    secs, more_taken, more_answers = _among_very_many(effort)
    return {"components": effort.components, "told_secs": told_secs, "taken": {**taken, **beside_taken, **more_taken},
            "answers": {**answers, **beside_answers, **more_answers},
            "very_many": effort.very_many, "very_many_told_secs": secs}


def _among_very_many(effort: Effort) -> tuple[float, dict[str, list[float]], dict[str, int]]:
    """Return the time of filling a very large catalog, and the results of `_asked` for its searches."""
    with (tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as root,
          Catalog(root) as catalog):
        begin = time.perf_counter()
        _fill(catalog, effort.very_many, told=lambda count: progress(
            f"catalog: {count:,} of {effort.very_many:,} components added"))
        told_secs = time.perf_counter() - begin
        questions = {f"{name}, of {effort.very_many:,}": ask for name, ask in _searches(catalog).items()}
        return told_secs, *_asked(questions, effort.rounds)


def _beside_many_names(catalog: Catalog, names: int) -> dict[str, Callable[[], int]]:
    beside = f"with a run of {names:,} names in the catalog"
    return {
        f"{_TABLE}, {beside}": lambda: _table(catalog, _COMPONENTS),
        f"{_TABLE}, {beside}, and in the table": lambda: _table(catalog, f"{_COMPONENTS} or name = 'names'"),
        **{f"{name}, {beside}": ask for name, ask in _searches(catalog).items()},
    }


def _searches(catalog: Catalog) -> dict[str, Callable[[], int]]:
    return {name: functools.partial(_ids, catalog, text) for name, text in SEARCHES.items()}


def _asked(
    questions: Mapping[str, Callable[[], int]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return the seconds of each query at each repetition, and its number of rows."""
    answers = {name: ask() for name, ask in questions.items()}
    taken: dict[str, list[float]] = {name: [] for name in questions}
    for number in range(rounds):
        progress(f"catalog, round {number + 1} of {rounds}")
        for name, ask in questions.items():
            begin = time.perf_counter()
            ask()
            taken[name].append(time.perf_counter() - begin)
    return taken, answers


def print_catalog(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("query", "rows", "time")
    for name, taken in report["taken"].items():
        rows = report["answers"][name]
        table.add(name, f"{rows:,}", span_text(interval_of(taken), "ms", scale=1000.0))
    table.print()
    each = report["told_secs"] / report["components"] * 1000
    note(f"{report['components']:,} components with 5 metrics, 5 parameters and 4 tags each, added in "
         f"{report['told_secs']:.1f} s ({each:.2f} ms each), and {report['very_many']:,} in "
         f"{report['very_many_told_secs']:,.0f} s; SQLite; one process; warm")


def _fill(catalog: Catalog, components: int, told: Callable[[int], object] = lambda count: None) -> None:
    draws = random.Random(0)
    for first in range(0, components, _BATCH):
        if first % _TOLD == 0:
            told(first)
        catalog.tell([entry for number in range(first, min(first + _BATCH, components))
                      for entry in _component(number, draws)])


def _component(number: int, draws: random.Random) -> list[Entry]:
    uid, when = f"component-{number}", 1_800_000_000.0 + number
    return [
        Entry(uid, Verb.CREATE, {"kind": "component", "name": f"c{number}"}, when),
        Entry(uid, Verb.PARAMETERS, {
            "lr": draws.uniform(0, 0.1), "batch": draws.choice([16, 32, 64]), "opt": draws.choice(["sgd", "adam"]),
            "depth": draws.randrange(10), "decay": draws.random(),
        }, when),
        Entry(uid, Verb.TAG, {
            "team": draws.choice(["vision", "speech"]), "a": "1", "b": "2", "c": f"{number % 7}",
        }, when),
        Entry(uid, Verb.METRICS, {
            name: {"last": draws.random(), "min": draws.random(), "max": draws.random(), "mean": 0.5, "std": 0.1,
                   "count": 100, "last_step": 99} for name in _METRICS
        }, when),
    ]


def _recorded(root: str, name: str, points: int) -> str:
    with Run(name, root=root) as run:
        for step in range(points):
            run.log_metric("loss", 1.0 / (step + 1), step)
    return run.url


def _named(root: str, names: int) -> str:
    with Run("names", root=root) as run:
        for step in range(2):
            for number in range(names):
                run.log_metric(_name(number), step + 0.5 * number, step)
    return run.url


def _name(number: int) -> str:
    return f"layer.{number // 100}.metric_{number % 100}"


def _table(catalog: Catalog, search: str) -> int:
    """Make the table, with every column in which more than one component has a value."""
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids(search, connection))
    common = {f"metrics.{name}.{statistic}" for name in table.columns.metrics.commonest(len(_METRICS))
              for statistic in STATISTICS}
    for name in (*takewhile(lambda name: not name.startswith("metrics."), table.columns), *common):
        table.columns[name]
    return len(table)


def _ids(catalog: Catalog, text: str) -> int:
    with catalog.reading() as connection:
        return len(catalog.ids(text, connection))
