"""Groups of runs: the numbers are those of NumPy and of `judge`."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.judging import judged
from barograph.experiments.run_groups import RunGroups, members_of_group, run_groups
from barograph.experiments.run_listing import found_runs, search_with
from barograph.experiments.verdict import Outcome
from experiments_entries import component

WIDE, NARROW = [0.70, 0.71, 0.68], [0.21, 0.24, 0.22]


@pytest.fixture
def full(catalog: Catalog) -> Catalog:
    for width, results in ((64, WIDE), (16, NARROW)):
        for seed, accuracy in enumerate(results):
            catalog.tell(component(f"w{width}-{seed}", kind="run", parameters={"width": width, "seed": seed},
                                   metrics={"acc": accuracy, "loss": 1.0}))
    catalog.tell(component("unmeasured", kind="run", parameters={"width": 64}))
    return catalog


def groups(catalog: Catalog, by: str = "params.width", metric: str = "acc", **options: object) -> RunGroups:
    with catalog.reading() as connection:
        return run_groups(connection, found_runs(catalog, connection, search_with("")), by, metric, **options)


def test_the_band_is_that_of_numpy(full: Catalog) -> None:
    first, second = groups(full).groups

    for found, values in ((first, WIDE), (second, NARROW)):
        half = 4.30265273 * np.std(values, ddof=1) / math.sqrt(3)  # Student's t, 2 degrees of freedom
        assert found.group.mean == pytest.approx(np.mean(values))
        assert found.group.low == pytest.approx(np.mean(values) - half, rel=1e-5)
        assert found.group.high == pytest.approx(np.mean(values) + half, rel=1e-5)


def test_the_verdict_is_that_of_judge(full: Catalog) -> None:
    found, expected = groups(full), judged(full.find("kind = 'run'"), "params.width", "acc")

    assert found.judgement == expected
    assert found.judgement.verdict is not None
    assert found.judgement.verdict.outcome is Outcome.ACCEPTED
    assert found.groups[1].behind == expected.verdict
    assert found.to_json()["sentence"] == expected.sentence


def test_a_group_names_its_best_run_and_runs_without_the_metric_are_counted(full: Catalog) -> None:
    found = groups(full)

    assert [(group.group.name, group.best_name, group.best) for group in found.groups] == [
        ("64", "w64-1", 0.71), ("16", "w16-1", 0.24)]
    assert (found.count, found.without) == (2, 1)


def test_the_best_of_a_loss_is_the_least(full: Catalog) -> None:
    assert groups(full, metric="acc.max", less_is_better=True).groups[0].best == pytest.approx(1.21)


def test_several_parameters_group_together_and_only_the_first_groups_are_returned(full: Catalog) -> None:
    found = groups(full, by="params.width,params.seed", most=4)

    assert (len(found.groups), found.count) == (4, 6)
    assert found.groups[0].group.name == "64, 1"
    assert math.isnan(found.groups[0].group.low), "one run has no interval"


def test_a_group_of_nan_has_no_best_run(full: Catalog) -> None:
    full.tell(component("broken", kind="run", parameters={"width": 8}, metrics={"acc": math.nan}))

    last = groups(full).groups[-1]
    assert (last.group.name, last.best_place, math.isnan(last.best)) == ("8", "", True)


def test_a_group_is_opened_in_the_order_of_the_list(full: Catalog) -> None:
    with full.reading() as connection:
        ids = found_runs(full, connection, search_with("", order="name desc"))
        members = members_of_group(connection, ids, "params.width", "acc.max", "64")
        assert members == [number for number in ids if number in members]
        assert len(members) == 3
        with pytest.raises(UnknownName, match=re.escape('There is no group "65". There are: 16, 64')):
            members_of_group(connection, ids, "params.width", "acc", "65")


def test_an_unknown_metric_suggests_the_nearest(full: Catalog) -> None:
    with pytest.raises(UnknownName, match='Did you mean "acc"'):
        groups(full, metric="ac")
