"""Runs side by side: what differs, where they part, and what came of what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.handle import catalog_at
from barograph.model.items import Entry, Verb
from barograph.model.origin import Code, Origin
from barograph.provenance.gathering import Gathered
from barograph.runs.state.origins import write_origin
from barograph.store.urls import store_from_url
from barograph.web.opened import OpenRuns
from web_client import Client, recorded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    for name, losses, lr in (("first", [3.0, 2.0, 1.0], 0.1), ("group/second", [3.0, 2.0, 0.5], 0.2)):
        recorded(root / name, losses)
        origin = Origin(("train.py",), parameters={"lr": lr, "width": 16}, code=Code("/code", commit="abc"))
        diff = f"diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n+lr = {lr}\n"
        write_origin(store_from_url(str(root / name)), 0, Gathered(origin, diff=diff.encode()))
    return root


def test_parameters_that_differ_come_with_the_changes_of_the_code(client: Client) -> None:
    found = client.get("/api/differences?run=0/first&run=0/group/second").json

    assert found["parts"]["parameters"] == [{"name": "lr", "values": [0.1, 0.2]}]
    assert found["same"]["parameters"] == 1
    (code,) = found["code_files"]
    assert [(file["path"], file["only"]) for file in code["files"]] == [("train.py", "")]
    assert "++lr = 0.2" in code["files"][0]["lines"]


def test_a_metric_that_is_nan_is_no_missing_one(client: Client, root: Path) -> None:
    recorded(root / "broken", [3.0, float("nan")])
    found = client.get("/api/differences?run=0/first&run=0/broken").json

    assert {"name": "loss.last", "values": [1.0, "NaN"]} in found["parts"]["metrics"]


def test_the_first_step_apart_is_named(client: Client) -> None:
    found = client.get("/api/parting?run=0/first&run=0/group/second").json

    assert (found["sameness"], found["first"]["step"], found["first_loss"]["step"]) == ("different", 2, 2)
    assert "step 2" in found["first_loss"]["words"]
    assert "the parameter lr differs (0.1 and 0.2)" in found["causes"]
    assert found["data"] is None
    same = client.get("/api/parting?run=0/first&run=0/first")
    assert (same.status, "two different runs" in same.json["error"]) == (400, True)


def test_runs_are_locked_in_one_order_so_that_two_pages_do_not_wait_for_each_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent = []
    run = OpenRuns.run

    def noted(self: OpenRuns, key: str) -> Any:
        lent.append(key)
        return run(self, key)

    monkeypatch.setattr(OpenRuns, "run", noted)
    for keys in (("0/first", "0/group/second"), ("0/group/second", "0/first")):
        found = client.get(f"/api/parting?run={keys[0]}&run={keys[1]}").json
        assert found["first_loss"]["first"] == (1.0 if keys[0] == "0/first" else 0.5)

    assert lent == ["0/first", "0/group/second"] * 2


def test_the_lineage_has_what_a_run_read_made_and_repeats(client: Client, root: Path) -> None:
    first, second = (client.get(f"/api/marks?run=0/{key}").json["uid"] for key in ("first", "group/second"))
    catalog_at(str(root)).tell([
        Entry(first, Verb.INPUT, {"name": "data.csv", "uri": "file:///data.csv"}),
        Entry(first, Verb.OUTPUT, {"name": "model", "uri": "s3://b/model"}),
        Entry(second, Verb.INPUT, {"name": "model", "uri": "s3://b/model"}),
        Entry(second, Verb.RELATE, {"relation": "derived_from", "target": first}),
    ])

    found = client.get("/api/lineage?run=0/first").json

    assert [(node["name"], node["kind"], node["column"], node["key"]) for node in found["nodes"]] == [
        ("first", "run", 0, "0/first"), ("data.csv", "artifact", -1, None), ("second", "run", 1, "0/group/second"),
        ("model", "artifact", 1, None)]
    names = {node["uid"]: node["name"] for node in found["nodes"]}
    assert sorted((names[edge["source"]], edge["relation"], names[edge["target"]]) for edge in found["edges"]) == [
        ("first", "read", "data.csv"), ("model", "made_by", "first"), ("second", "derived_from", "first"),
        ("second", "read", "model")]
    assert (found["reruns"], found["left_out"]) == ([second], 0)
    assert client.get("/api/lineage?run=0/group/second").json["reruns"] == [first]


def test_a_comparison_of_one_run_is_refused(client: Any) -> None:
    assert client.get("/api/differences?run=0/first").status == 400
