"""In what components differ, group by group, and curve by curve."""

import math
from pathlib import Path

import numpy as np
import pytest

import barograph
from barograph.errors import SettingsError, UnknownKey, UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.comparing import compared, grouped, metric_and_statistic
from barograph.experiments.curves import Curve, aligned, best_at, curve_of
from barograph.experiments.run import Run
from barograph.model.items import Entry, Verb
from experiments_entries import component


def test_what_differs_is_told_and_what_is_the_same_is_counted(catalog: Catalog) -> None:
    catalog.tell([
        *component("a", parameters={"lr": 0.1, "seed": 1, "n": math.nan}, metrics={"loss": 1.0}, tags={"t": "x"}),
        *component("b", parameters={"lr": 0.2, "seed": 1, "n": math.nan, "only": True}, metrics={"loss": math.nan},
                   tags={"t": "x"}),
        Entry("a", Verb.INPUT, {"name": "data", "uri": "file:///x", "digest": "sha256:1"}),
        Entry("b", Verb.INPUT, {"name": "data", "uri": "file:///y", "digest": "sha256:1"}),
        Entry("b", Verb.SET, {"commit": "abc"}),
    ])
    found = compared([catalog.item("a"), catalog.item("b")], statistics=("last",))
    assert {part: {row.name: row.values for row in rows} for part, rows in found.parts.items()} == {
        "parameters": {"lr": (0.1, 0.2), "only": (None, True)}, "code": {"commit": (None, "abc")},
        "metrics": {"loss.last": (1.0, pytest.approx(math.nan, nan_ok=True))}}
    assert found.same == {"parameters": 2, "code": 0, "packages": 0, "data": 1, "tags": 1, "findings": 0, "metrics": 0}


def test_one_alone_is_not_compared(catalog: Catalog) -> None:
    catalog.tell(component("a"))
    with pytest.raises(SettingsError, match="two"):
        compared([catalog.item("a")])


def test_results_of_one_setting_are_a_group(catalog: Catalog) -> None:
    catalog.tell([entry for number, width in enumerate((16, 64, 16)) for entry in
                  component(f"c{number}", parameters={"width": width}, metrics={"acc": width + number})])
    items = catalog.find("order by name")
    assert {name: [item.uid for item in members] for name, members in grouped(items, "params.width", "acc").items()
            } == {"16": ["c0", "c2"], "64": ["c1"]}
    assert list(grouped(items, "params.width, trial", "acc")) == ["16, ", "64, "]
    assert metric_and_statistic("metrics.acc.max") == ("acc", "max")
    with pytest.raises(UnknownName, match='Did you mean "acc"'):
        grouped(items, "params.width", "acd")
    with pytest.raises(SettingsError, match=r"use params\.NAME"):
        grouped(items, "width", "acc")


def test_curves_are_laid_side_by_side_by_step_time_and_epoch(tmp_path: Path) -> None:
    with Run("r", root=tmp_path) as run:
        for epoch in range(3):
            run.log_metric("epoch", epoch, step=epoch * 10)
            for step in (epoch * 10, epoch * 10 + 5):
                run.log_metric("acc", step / 100, step=step, time_unix=1000.0 + step)
    recorded = barograph.open(run.url)
    assert curve_of(recorded, "acc").at.tolist() == [0, 5, 10, 15, 20, 25]
    assert curve_of(recorded, "acc", "time").at.tolist() == [0, 5, 10, 15, 20, 25]
    assert curve_of(recorded, "acc", "epoch").at.tolist() == [0, 0, 1, 1, 2, 2]
    assert best_at(curve_of(recorded, "acc", "epoch"), [0, 1, 30], greater_is_better=True) == [0.05, 0.15, 0.25]
    with pytest.raises(UnknownKey, match='Did you mean "acc"'):
        curve_of(recorded, "ac")
    with pytest.raises(SettingsError, match="step, time, epoch"):
        curve_of(recorded, "acc", "batch")


def test_the_best_before_the_first_value_is_not_known() -> None:
    curve = Curve(np.array([5.0, 6.0]), np.array([math.nan, 2.0]))
    assert [math.isnan(value) for value in best_at(curve, [0, 5, 6], greater_is_better=False)] == [True, True, False]


def test_columns_have_every_place_that_any_curve_has() -> None:
    columns = aligned({"a": Curve(np.array([0.0, 2.0]), np.array([1.0, 2.0])),
                       "b": Curve(np.array([1.0, 2.0, 2.0]), np.array([3.0, 4.0, 5.0]))})
    assert columns["at"] == [0.0, 1.0, 2.0]
    assert [str(value) for value in columns["a"]] == ["1.0", "nan", "2.0"]
    assert [str(value) for value in columns["b"]] == ["nan", "3.0", "5.0"]
    assert aligned({}) == {"at": []}
