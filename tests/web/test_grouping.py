"""Bands of groups of runs: what NumPy says, where runs end or have NaN, and what they can be grouped by."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from barograph.experiments.handle import catalog_at
from barograph.queries.bands import Part, bands
from barograph.store.urls import store_from_url
from barograph.web.app import application
from barograph.web.grouping import grouping_choices
from diary import Diary
from experiments_entries import component
from web_client import Client

NAN = math.nan


def write(place: Path, losses: dict[int, float]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    diary = Diary(place.name, store_from_url(str(place)))
    diary.manifest = replace(diary.manifest, run_id=f"{diary.manifest.run_id}-{place.name}")
    for step, loss in losses.items():
        diary.step(step, {"loss:total": loss})
    diary.ended()


def asked(root: Path, runs: str, more: str = "", points: int = 1000) -> Any:
    client = Client(application([str(root)], hosts=["127.0.0.1"]))
    query = "&".join(f"run=0/{name}&group={group}" for name, group in (one.split(":") for one in runs.split()))
    answer = client.get(f"/api/bands?{query}&name=loss&points={points}{more}")
    assert answer.status == 200, answer.body
    return answer.json


def test_mean_standard_error_and_extremes_are_those_of_numpy(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(6, 50))
    for number, row in enumerate(values):
        write(tmp_path / f"run{number}", dict(enumerate(row.tolist())))

    first, second = asked(tmp_path, "run0:0 run1:0 run2:0 run3:1 run4:1 run5:1")["groups"]

    for [band], mine in ((first, values[:3]), (second, values[3:])):
        assert band["at"] == list(range(50))
        assert band["counts"] == [3] * 50
        np.testing.assert_allclose(band["mean"], mine.mean(axis=0))
        np.testing.assert_allclose(band["error"], mine.std(axis=0, ddof=1) / np.sqrt(3))
        np.testing.assert_allclose(band["least"], mine.min(axis=0))
        np.testing.assert_allclose(band["greatest"], mine.max(axis=0))


def test_a_run_that_ends_early_no_longer_counts(tmp_path: Path) -> None:
    write(tmp_path / "long", dict.fromkeys(range(4), 1.0))
    write(tmp_path / "short", dict.fromkeys(range(2), 3.0))

    [[band]] = asked(tmp_path, "long:0 short:0")["groups"]

    assert band["mean"] == [2.0, 2.0, 1.0, 1.0]
    assert band["counts"] == [2, 2, 1, 1]
    assert band["error"] == [1.0, 1.0, None, None]
    assert band["runs"] == 2


def test_numbers_whose_squares_are_beyond_the_largest_one_have_no_standard_error() -> None:
    def part(value: float) -> Part:
        one = np.array([value])
        return Part("loss", "train", np.array([[0.0, 0.0]]), one, one, one, np.array([1]), np.array([False]))

    [band] = bands([[part(1e200)], [part(-1e200)]], columns=10)

    assert (band.to_json()["mean"], band.to_json()["error"]) == ([0.0], [None])
    json.dumps(band.to_json(), allow_nan=False)


def test_a_nan_is_left_out_marked_and_never_bridged(tmp_path: Path) -> None:
    write(tmp_path / "good", {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})
    write(tmp_path / "bad", {0: 3.0, 1: 3.0, 2: NAN, 3: 3.0})

    [[band]] = asked(tmp_path, "good:0 bad:0")["groups"]

    assert band["mean"] == [2.0, 2.0, 1.0, 2.0]
    assert band["counts"] == [2, 2, 1, 2]
    assert (band["nonfinite"], band["nonfinite_at"]) == (1, [[2.0, 2.0]])


def test_between_its_points_a_run_counts_with_the_line_that_connects_them(tmp_path: Path) -> None:
    write(tmp_path / "often", dict.fromkeys(range(5), 0.0))
    write(tmp_path / "seldom", {0: 0.0, 4: 8.0})

    [[band]] = asked(tmp_path, "often:0 seldom:0")["groups"]

    assert band["at"] == [0, 1, 2, 3, 4]
    assert band["mean"] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_long_curves_become_columns_that_keep_the_spike_of_each_run(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / f"run{number}", {step: 100.0 if step == 777 and number else 1.0 for step in range(2000)})

    [[band]] = asked(tmp_path, "run0:0 run1:0", points=100)["groups"]

    assert band["columns"] is True
    assert len(band["at"]) == 50
    assert max(band["greatest"]) == 100.0
    assert 760 <= band["at"][band["greatest"].index(100.0)] <= 800
    # A column has 40 steps: the mean of the run with the spike is (39 + 100) / 40 there.
    assert max(band["mean"]) == pytest.approx(1.0 + (99 / 40) / 2, rel=0.05)


def test_a_line_that_was_recorded_in_part_of_a_group_counts_the_runs_that_have_it(tmp_path: Path) -> None:
    write(tmp_path / "with", {0: 1.0})
    write(tmp_path / "without", {0: 1.0})

    found = asked(tmp_path, "with:0 without:0", more="&name=scalar:nothing")

    assert [band["name"] for band in found["groups"][0]] == ["loss"]


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_drawn(tmp_path: Path) -> None:
    write(tmp_path / "good", {0: 1.0})

    found = asked(tmp_path, "good:0 gone:0")

    assert found["groups"][0][0]["runs"] == 1
    assert list(found["problems"]) == ["0/gone"]


def test_runs_and_groups_of_other_lengths_are_refused(tmp_path: Path) -> None:
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))

    assert client.get("/api/bands?run=0/a&name=loss").status == 400
    assert client.get("/api/bands?run=0/a&group=-1&name=loss").status == 400
    assert client.get("/api/bands?run=0/a&group=x&name=loss").status == 400


def test_runs_are_grouped_by_what_differs_shared_values_first(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    for seed, width in ((0, 16), (1, 16), (2, 64)):
        catalog.tell(component(f"run{seed}", kind="run", parameters={"seed": seed, "width": width, "depth": 2},
                               tags={"color": f"#00000{seed}"}))

    assert grouping_choices(catalog.find("kind = 'run'")) == ["params.width", "params.seed"]


def test_the_group_of_each_run_is_its_parameter(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, {0: 1.0})
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))

    found = client.get("/api/grouping?run=0/a&run=0/b&by=params.width").json

    assert found == {"choices": [], "groups": ["not set", "not set"]}


def test_bands_are_computed_outside_of_the_loop_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "one", {0: 1.0})
    threads: list[int] = []

    def noted(*args: Any, **options: Any) -> list[Any]:
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr("barograph.web.grouping.bands", noted)
    asked(tmp_path, "one:0")

    assert len(threads) == 1
    assert threads[0] != threading.get_ident(), "the loop runs in this thread"
