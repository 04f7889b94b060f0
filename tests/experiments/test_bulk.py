"""Many components created together are what they would be one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.errors import NameTaken, SettingsError, UnknownName
from barograph.tracking import Component, Experiment


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "runs")


def rows(first: int, last: int) -> list[dict[str, object]]:
    return [{"name": f"c{number}", "description": "old", "parameters": {"lr": number / 10, "net": {"width": 64}},
             "metrics": {"acc": number, "odd": float("nan")}, "tags": {"team": "vision"}}
            for number in range(first, last)]


def test_they_are_what_they_would_be_one_by_one(root: str) -> None:
    trial = Experiment.create("digits", root=root).create_trial("all")
    assert Component.create_many(rows(0, 50), trial=trial) == 50
    one = Component.create("c50", description="old", tags={"team": "vision"}, root=root)
    one.log_parameters({"lr": 5.0, "net": {"width": 64}}).log_metric("acc", 50).log_metric("odd", float("nan"))
    trial.add_component(one)
    known = Component.load("c7", root=root)
    assert (known.parameters, known.tags, [found.name for found in known.trials]) == (
        {"lr": 0.7, "net.width": 64}, {"team": "vision"}, ["all"])
    columns = Experiment.load("digits", root=root).table("order by metrics.acc.last desc").columns
    assert columns["name"][:2] == ("c50", "c49")
    assert [columns[name][0] for name in ("params.net.width", "tags.team", "metrics.acc.count", "trials")] == [
        columns[name][1] for name in ("params.net.width", "tags.team", "metrics.acc.count", "trials")]


def test_they_are_told_in_one_paper(root: str) -> None:
    Component.create_many(rows(0, 50), root=root)
    assert len(list((Path(root) / ".catalog" / "journal").iterdir())) == 1


def test_where_one_cannot_be_none_is(root: str) -> None:
    Component.create("c3", root=root)
    for wrong, kind, text in (
        (rows(0, 9), NameTaken, 'already exist: "c3"'),
        ([*rows(10, 12), *rows(11, 13)], NameTaken, "1 of 4 components share"),
        ([*rows(20, 22), {"name": "x", "parametres": {}}], UnknownName, 'Did you mean "parameters"'),
        ([*rows(20, 22), {"parameters": {}}], SettingsError, "name of the component"),
        ([*rows(20, 22), {"name": "x", "metrics": {"acc": "good"}}], SettingsError, "acc"),
    ):
        with pytest.raises(kind, match=text):
            Component.create_many(wrong, root=root)
    assert [found.name for found in Component.list(root=root)] == ["c3"]
    assert Component.create_many([], root=root) == 0
