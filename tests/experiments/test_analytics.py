"""What programs ask of runs beside each other: differences, groups, curves."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from barograph.errors import SettingsError, UnknownKey, UnknownName
from barograph.tracking import Component, Run, compare, curves, judge, list_runs
from drawn import drawn


@pytest.fixture
def runs(tmp_path: Path) -> list[Component]:
    """Two widths of three seeds each, and one run without the metric."""
    for width in (16, 64):
        for seed in range(3):
            with Run(f"w{width}-{seed}", root=tmp_path) as run:
                run.log_parameters({"width": width, "seed": seed})
                for step in range(0, 30 + seed, 10):
                    run.log_metric("acc", width / 100 + step / 1000 + seed / 100, step=step)
                    run.log_metric("loss", 1 / (width + seed), step=step)
    with Run("other", root=tmp_path) as run:
        run.log_metric("speed", 1.0)
    return list(list_runs("order by name", root=tmp_path))


def test_what_differs_between_components(runs: list[Component]) -> None:
    found = compare(runs[1], runs[2], runs[4])
    assert found.names == ("w16-0", "w16-1", "w64-0")
    assert {row.name: row.values for row in found.parts["parameters"]} == {"seed": (0, 1, 0), "width": (16, 16, 64)}
    with pytest.raises(SettingsError, match="two"):
        compare(runs[0])
    with pytest.raises(SettingsError, match=r"'w16-0' is not a component\. Pass one from Component\.load"):
        compare("w16-0", runs[1])  # type: ignore[arg-type]


def test_the_better_group_is_accepted_where_it_is_more_than_noise(runs: list[Component]) -> None:
    found = judge(runs, "params.width", "acc.max")
    assert [(group.name, len(group.values)) for group in found.groups] == [("64", 3), ("16", 3)]
    assert found.verdict is not None
    assert (found.verdict.outcome, found.greater_is_better) == ("accepted", True)
    assert found.verdict.difference == pytest.approx(0.48)
    assert repr(found) == "Judgement(acc.max by params.width, 2 groups, 64 first, accepted)"
    assert judge(runs, "params.width", "loss.min").groups[0].name == "64"
    assert judge(runs, "params.width", "loss.min", less_is_better=False).groups[0].name == "16"


def test_one_group_alone_has_no_verdict(runs: list[Component]) -> None:
    found = judge(runs[1:4], "params.width", "acc.max")
    assert (len(found.groups), found.verdict) == (1, None)
    with pytest.raises(UnknownName, match='Did you mean "acc"'):
        judge(runs, "params.width", "acd.max")


def test_curves_of_several_runs_over_one_axis(runs: list[Component]) -> None:
    found = curves(runs, "acc")
    assert list(found) == [run.name for run in runs[1:]]
    assert found.without == ("other",)
    assert found["w16-2"].at.tolist() == [0, 10, 20, 30]
    frame = found.to_pandas()
    assert frame.index.name == "step"
    assert frame.loc[20.0, "w64-0"] == pytest.approx(0.66)
    assert math.isnan(frame.loc[30.0, "w64-0"])
    assert found.to_polars().columns[:2] == ["step", "w16-0"]
    assert found.best_at([10, 99], greater_is_better=True)["w16-0"] == pytest.approx([0.17, 0.18])
    assert "nobody" not in found
    with pytest.raises(UnknownKey, match='metric "acd"'):
        curves(runs, "acd")
    with pytest.raises(SettingsError, match="use one of step, time, epoch"):
        curves(runs, "acc", "hour")


def test_runs_of_one_name_are_columns_each(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        with Run("same", root=tmp_path) as run:
            run.log_metric("acc", value, step=0)
    known = list_runs("order by created", root=tmp_path)
    found = curves(known, "acc", "time")
    assert sorted(curve.values.tolist()[0] for curve in found.values()) == [1.0, 2.0]
    assert sorted(found)[0] == "same"
    assert sorted(found)[1].startswith("same (")


def test_a_run_whose_records_are_gone_is_told_as_one_without(runs: list[Component]) -> None:
    shutil.rmtree(runs[1].place)
    assert curves(runs, "acc").without == ("other", "w16-0")
    with pytest.raises(UnknownKey, match='None of these recorded a metric "acc"'):
        curves([runs[1]], "acc")


def test_they_show_themselves_in_a_notebook(runs: list[Component]) -> None:
    told, curve = drawn(judge(runs, "params.width", "acc")), drawn(curves(runs, "acc"))
    assert "Groups, best first" in told
    assert "accepted" in told
    assert "<svg" in curve
    assert "Without: other." in curve
    assert curve.count("w64-2") >= 1
