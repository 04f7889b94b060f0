"""Experiments, what groups of runs had reached, and lineage, as data."""

import json
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import SettingsError, UnknownItem
from barograph.experiments.catalog import Catalog
from barograph.experiments.comparing import compared
from barograph.experiments.curves import curves_of_items
from barograph.experiments.judging import Group, Judgement
from barograph.experiments.lineage import Lineage, lineage_of
from barograph.experiments.overview import experiment_of, experiments_of
from barograph.experiments.reaching import places_from_text, reached
from barograph.experiments.run import Run
from barograph.experiments.verdict import Outcome, Verdict
from barograph.model.items import Entry, ItemKind, Verb
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from experiments_entries import component


def strict(data: Any) -> Any:
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    return data


@pytest.fixture
def two_runs(tmp_path: Path, clock: Any) -> Catalog:
    """A catalog of two runs: `falling` has a loss, `other` has none."""
    for name, losses in (("falling", (3.0, 1.0, 2.0)), ("other", ())):
        with Run(name, root=tmp_path / "runs") as run:
            run.log_metric("acc", 1.0, 0)
            for step, loss in enumerate(losses):
                run.log_metric("loss", loss, step)
    catalog = Catalog(tmp_path / "runs", clock=clock)
    catalog.feed()
    return catalog


def opened(place: str) -> RunReader:
    return RunReader(store_from_url(place))


def test_experiments_count_their_trials_and_components(file_catalog: Catalog) -> None:
    file_catalog.create(ItemKind.EXPERIMENT, "widths", fields={"hypothesis": "Wider is better."})

    (row,) = experiments_of(file_catalog)

    assert (row.item.name, row.trials, row.components) == ("widths", 0, 0)
    assert strict(row.to_json())["hypothesis"] == "Wider is better."


def test_an_experiment_has_its_trials_and_a_table(file_catalog: Catalog) -> None:
    file_catalog.create(ItemKind.EXPERIMENT, "widths")

    found = experiment_of(file_catalog, "widths")

    assert (found.trials, len(found.table)) == ((), 0)
    assert list(strict(found.to_json()))[-3:] == ["notes", "trials", "components"]
    with pytest.raises(UnknownItem):
        experiment_of(file_catalog, "heights")


def test_a_comparison_is_json(file_catalog: Catalog) -> None:
    file_catalog.tell([*component("a", parameters={"lr": 0.1}), *component("b", parameters={"lr": 0.2})])

    data = strict(compared([file_catalog.item("a"), file_catalog.item("b")]).to_json())

    assert data["names"] == ["a", "b"]
    assert data["parts"]["parameters"] == [{"name": "lr", "values": [0.1, 0.2]}]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.ACCEPTED, "a is better than b (by"),
        (Outcome.REJECTED, "b is better than a (by"),
        (Outcome.UNDECIDED, "no significant difference between a and b (difference"),
    ],
)
def test_a_verdict_is_a_sentence(outcome: Outcome, said: str) -> None:
    groups = tuple(Group(name, (1.0,), 1.0, 0.5, 1.5) for name in ("a", "b"))
    judgement = Judgement("params.width", "acc", True, 0.95, groups,
                          Verdict(outcome, 0.5, 0.25, 0.75, 0.95, "t", (3, 3), "Few runs."))

    assert judgement.sentence.startswith(f"{outcome}: {said} 0.5, 95% interval 0.25 to 0.75). ")
    assert strict(judgement.to_json())["verdict"]["outcome"] == outcome.value


def test_better_by_is_positive_also_where_less_is_better() -> None:
    groups = tuple(Group(name, (1.0,), 1.0, 0.5, 1.5) for name in ("a", "b"))
    judgement = Judgement("params.lr", "loss", False, 0.95, groups,
                          Verdict(Outcome.ACCEPTED, -0.5, -0.75, -0.25, 0.95, "t", (3, 3)))

    assert judgement.sentence.startswith("accepted: a is better than b (by 0.5, 95% interval 0.25 to 0.75).")


def test_one_group_has_no_verdict() -> None:
    judgement = Judgement("params.width", "acc", True, 0.95, (Group("a", (1.0,), 1.0, 0.5, 1.5),), None)

    assert (judgement.sentence, judgement.to_json()["verdict"]) == ("", None)


def test_the_best_value_so_far_is_what_a_run_had_reached(two_runs: Catalog) -> None:
    items = [two_runs.item("falling", ItemKind.RUN)]

    assert reached(items, "loss", [0.0, 2.0], "step", None, open_run=opened) == {0.0: [3.0], 2.0: [1.0]}


def test_places_are_numbers() -> None:
    assert places_from_text("30, 60,") == [30.0, 60.0]
    with pytest.raises(SettingsError, match="x,y"):
        places_from_text("x,y")


def test_a_run_without_the_metric_is_said_to_lack_it(two_runs: Catalog) -> None:
    items = [two_runs.item(name, ItemKind.RUN) for name in ("falling", "other", "falling")]

    found = curves_of_items(items, "loss", "step", open_run=opened)

    assert len(found.curves) == 1
    assert len(found.missing) == 1
    data = strict(found.to_json())
    assert (data["metric"], data["by"], data["at"]) == ("loss", "step", [0.0, 1.0, 2.0])


def test_lineage_names_both_ends(file_catalog: Catalog) -> None:
    file_catalog.tell([*component("a"), *component("b")])
    file_catalog.tell([Entry("b", Verb.RELATE, {"relation": "derived_from", "target": "a"})])

    edges = Lineage(file_catalog, lineage_of(file_catalog, "b"))

    (edge,) = strict(edges.to_json())
    assert (edge["source"], edge["target"], edge["depth"]) == ("b", "a", 1)
    assert (edge["source_name"], edge["target_name"]) == ("component b", "component a")
