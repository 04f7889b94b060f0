"""What says the same thing twice is one result."""

import random
from pathlib import Path

import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.independence import Values, independent_results
from barograph.experiments.item import Item
from barograph.experiments.judging import judged
from barograph.experiments.run import Run, list_runs
from barograph.experiments.verdict import Outcome
from barograph.model.items import Entry, Verb
from experiments_entries import NOW_UNIX, component


def told(catalog: Catalog, *rows: tuple[str, dict[str, object], float]) -> None:
    """Tell of components: name, parameters, accuracy."""
    for name, parameters, accuracy in rows:
        catalog.tell(component(name, parameters=parameters, metrics={"acc": accuracy}))


def test_runs_with_one_seed_count_once(catalog: Catalog) -> None:
    told(catalog,
         ("a0", {"model": "a", "seed": 0, "epochs": 1}, 0.9), ("a1", {"model": "a", "seed": 0, "epochs": 2}, 0.92),
         ("b0", {"model": "b", "seed": 0}, 0.5), ("b1", {"model": "b", "seed": 1}, 0.51))
    found = judged(catalog.find("order by name"), "params.model", "acc")
    first, second = found.groups
    assert (first.name, first.runs, first.values, first.repeats) == (
        "a", 2, (pytest.approx(0.91),), ("a1 counted with a0 (same seed: 0)",))
    assert (first.differs, second.differs, second.values) == (("epochs",), ("seed",), (0.5, 0.51))
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.counts) == (Outcome.UNDECIDED, (1, 2))


def test_folds_of_one_seed_are_results_of_their_own(catalog: Catalog) -> None:
    told(catalog, *((f"a{fold}", {"model": "a", "seed": 0, "fold": fold}, 0.9 + fold / 100) for fold in range(3)))
    [group] = judged(catalog.find("order by name"), "params.model", "acc").groups
    assert (group.runs, len(group.values), group.repeats) == (3, 3, ())


def test_reruns_of_one_thing_count_once_and_the_original_gives_the_value(catalog: Catalog) -> None:
    told(catalog, ("a", {"model": "a"}, 0.9), ("again", {"model": "a"}, 0.8), ("third", {"model": "a"}, 0.7),
         ("changed", {"model": "a", "lr": 2}, 0.6))
    catalog.tell([Entry("again", Verb.RELATE, {"relation": "derived_from", "target": "a"}),
                  Entry("third", Verb.RELATE, {"relation": "derived_from", "target": "again"}),
                  Entry("changed", Verb.RELATE, {"relation": "derived_from", "target": "a"})])
    [group] = judged(catalog.find("order by name"), "params.model", "acc").groups
    assert group.values == (0.9, 0.6)
    assert group.repeats == ("again counted with a (a rerun)", "third counted with a (a rerun)")


def test_runs_that_are_prefixes_of_one_another_count_once(tmp_path: Path) -> None:
    for name, steps, shift in (("short", 3, 0.0), ("whole", 9, 0.0), ("other", 9, 0.5)):
        with Run(name, root=tmp_path) as run:
            run.log_parameter("model", "a")
            for step in range(steps):
                run.log_metric("acc", step / 10 + shift * step, step)
    [group] = judged([run.item for run in list_runs("order by created", root=tmp_path)], "params.model", "acc").groups
    assert sorted(group.values) == [pytest.approx(0.8), pytest.approx(4.8)]
    assert group.repeats == ("short counted with whole (same values)",)


def test_a_name_that_nobody_has_tells_no_groups_apart(catalog: Catalog) -> None:
    told(catalog, ("a", {"model": "a"}, 0.9), ("b", {"model": "b"}, 0.5))
    with pytest.raises(UnknownName, match=r'parameter "modle".*Did you mean "model"'):
        judged(catalog.find(), "params.modle", "acc")
    with pytest.raises(UnknownName, match='tag "team"'):
        judged(catalog.find(), "tags.team", "acc")


def test_records_are_read_only_of_runs_whose_summaries_allow_a_repeat(file_catalog: Catalog) -> None:
    told(file_catalog, *((f"a{number}", {"model": "a"}, 0.5 + number / 100) for number in range(20)),
         ("twin", {"model": "a"}, 0.5))
    read: list[str] = []

    def series_of(item: Item, metric: str) -> Values:
        read.append(item.name)
        return np.array([0.1, 0.2, item.metrics[metric].last])

    [group] = judged(file_catalog.find("order by name"), "params.model", "acc", series_of=series_of).groups

    assert sorted(read) == ["a0", "twin"]
    assert (group.runs, len(group.values), group.repeats) == (21, 20, ("twin counted with a0 (same values)",))


@pytest.mark.parametrize("seed", range(8))
def test_runs_that_repeat_one_another_are_found_as_by_comparing_all(file_catalog: Catalog, seed: int) -> None:
    draws = random.Random(seed)
    series = {f"r{number}": [draws.choice([1.0, 2.0, float("nan")]) for _ in range(draws.randint(2, 5))]
              for number in range(12)}
    for name, values in series.items():
        when = NOW_UNIX + int(name[1:])
        file_catalog.tell([Entry(name, Verb.CREATE, {"kind": "run", "name": name}, when),
                           Entry(name, Verb.METRICS, {"acc": summary(values)}, when)])
    longest_first = sorted(series, key=lambda name: (-len(series[name]), int(name[1:])))
    kept: list[str] = []
    for name in longest_first:
        same = [other for other in kept if len(series[name]) >= 3 and np.array_equal(
            series[name], series[other][:len(series[name])], equal_nan=True)]
        # A series of NaN alone has no extremes, and is not compared.
        kept += [name] if not same or all(value != value for value in series[name]) else []

    found = independent_results(file_catalog.find("kind = 'run'"), "acc",
                                lambda item, metric: np.array(series[item.name]))

    assert sorted(one.runs[0].name for one in found) == sorted(kept)


def summary(values: list[float]) -> dict[str, float]:
    known = [value for value in values if value == value]
    return {"last": values[-1], "min": min(known, default=float("nan")), "max": max(known, default=float("nan")),
            "mean": 0.0, "std": 0.0, "count": len(values), "last_step": len(values) - 1}
