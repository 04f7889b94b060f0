"""Lists, groups and charts of runs, and their colors."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from barograph.experiments.handle import catalog_at
from barograph.experiments.judging import judged
from barograph.model.clock import ManualClock
from barograph.model.finding import Severity
from barograph.model.items import Entry, Verb
from barograph.queries.recall import recalled
from barograph.runs.state.findings import write_event
from barograph.store.urls import store_from_url
from barograph.web.app import application
from diary import finding_of
from experiments_entries import NOW_UNIX, component
from web_client import Client, recorded


@pytest.fixture
def many(tmp_path: Path) -> Client:
    """Six runs of two groups in a catalog."""
    for width, results in ((64, (0.7, 0.71, 0.68)), (16, (0.21, 0.24, 0.22))):
        for seed, accuracy in enumerate(results):
            catalog_at(tmp_path).tell(component(
                f"w{width}-{seed}", kind="run", parameters={"width": width, "seed": seed},
                metrics={"acc": accuracy}, time_unix=NOW_UNIX + seed))
    return Client(application([str(tmp_path)], hosts=["127.0.0.1"]))


def asked(client: Client, name: str, **query: str) -> Any:
    answer = client.get(f"/api/{name}?" + "&".join(f"{key}={quote(value)}" for key, value in query.items()))
    assert answer.status == 200, answer.body
    return answer.json


def test_the_verdict_of_groups_is_the_one_that_compare_prints(many: Client, tmp_path: Path) -> None:
    found = asked(many, "groups", by="params.width", metric="acc")
    expected = judged(catalog_at(tmp_path).find("kind = 'run'"), "params.width", "acc")

    assert found["sentence"] == expected.sentence
    assert [(group["name"], group["mean"], group["low"]) for group in found["groups"]] == [
        (group.name, group.mean, group.low) for group in expected.groups]


def test_nan_is_no_missing_value(many: Client, tmp_path: Path) -> None:
    catalog_at(tmp_path).tell(component("broken", kind="run", metrics={"acc": float("nan")}))

    row = many.get("/api/search?q=name+=+'broken'&column=metrics.acc.last&column=params.width").json["rows"][0]
    assert row["values"] == ["NaN", None]


def test_a_group_opens_to_its_runs(many: Client) -> None:
    found = asked(many, "search", by="params.width", metric="acc", group="16", order="metrics.acc.last desc")

    assert (found["count"], [row["name"] for row in found["rows"]]) == (3, ["w16-1", "w16-2", "w16-0"])


def test_lists_name_rules_in_the_words_of_the_terminal(tmp_path: Path) -> None:
    for name in ("first", "second"):
        recorded(tmp_path / name, [1.0])
        write_event(store_from_url(str(tmp_path / name)), finding_of(Severity.COSTLY, code="L102", rule="overfit"))
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))
    catalog = catalog_at(tmp_path)
    catalog.feed()
    catalog.tell([Entry(run.uid, Verb.PARAMETERS, {"width": 8}) for run in catalog.find("kind = 'run'")])

    row = asked(client, "search")["rows"][0]
    group = asked(client, "groups", by="params.width", metric="loss")["groups"][0]
    assert [row["findings"][0]["words"], group["findings"][0]["words"]] == ["overfitting", "overfitting"]


def test_a_card_says_in_the_words_of_the_terminal_that_nobody_watched_a_run(tmp_path: Path) -> None:
    recorded(tmp_path / "alone", [1.0])
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))

    (card,) = client.get("/api/now").json["runs"]

    assert card["sentence"] == recalled(store_from_url(str(tmp_path / "alone"))).verdict
    assert card["sentence"] == "This run has not been watched."


def test_only_what_differs_is_shown_of_the_chosen_columns(many: Client) -> None:
    url = "/api/search?q=params.width+%3D+16&column=params.width&column=params.seed"

    assert many.get(url).json["columns"] == ["params.width", "params.seed"]
    assert many.get(f"{url}&differs=1").json["columns"] == ["params.seed"]


def test_columns_are_searched_and_those_to_show_first_are_named(many: Client) -> None:
    found = asked(many, "columns", match="PARAMS")

    assert [(column["name"], column["field"], column["differs"]) for column in found["columns"]] == [
        ("params.seed", "params.seed", True), ("params.width", "params.width", True)]
    assert "metrics.acc.last" in found["usual"]


def test_a_chart_gets_columns_of_all_runs_that_match(many: Client) -> None:
    found = many.get("/api/points?q=params.seed+%3D+0&order=params.width"
                     "&column=params.width&column=metrics.acc.last").json

    assert (found["count"], found["names"]) == (2, ["w16-0", "w64-0"])
    assert found["columns"] == {"params.width": [16, 64], "metrics.acc.last": [0.21, 0.7]}


def test_a_range_that_was_brushed_narrows_list_groups_and_charts(many: Client) -> None:
    brushed = "q=params.width+%3D+16&filter=metrics.acc.last+%3E%3D+0.22"

    assert many.get(f"/api/search?{brushed}").json["count"] == 2
    assert many.get(f"/api/points?{brushed}").json["count"] == 2
    assert many.get(f"/api/groups?{brushed}&by=params.width&metric=acc").json["groups"][0]["runs"] == 2


def test_the_parameter_that_matters_comes_first(many: Client) -> None:
    found = asked(many, "importance", metric="acc")

    assert [item["parameter"] for item in found["found"]] == ["width", "seed"]
    assert found["found"][0]["share"] > 0.5 > found["found"][1]["share"]


def test_a_search_is_completed_and_its_error_is_placed(many: Client) -> None:
    found = asked(many, "suggest", q="params.wid = 1 and state = 3", at="10")

    assert (found["start"], found["items"][0]["text"]) == (0, "params.width")
    assert (found["problem"]["start"], found["problem"]["stop"]) == (27, 28)


@pytest.mark.parametrize(("question", "status", "says"), [
    ("groups?by=params.width&metric=ac", 404, 'Did you mean "acc"'),
    ("groups?by=params.wdth&metric=acc", 404, 'Did you mean "width"'),
    ("groups?by=width&metric=acc", 400, "Cannot group by"),
    ("search?group=16&by=params.width&metric=ac", 404, 'Did you mean "acc"'),
    ("search?group=1&by=params.width&metric=acc", 404, 'Did you mean "16"'),
    ("search?group=16", 400, "Cannot group by"),
    ("importance?metric=ac", 400, 'has a metric "ac"'),
    ("search?root=3", 404, "no root 3"),
    ("search?filter=params.lr+%3C", 400, "expected a value"),
    ("points?q=nme+%3D+1", 400, "no field"),
])
def test_a_wrong_question_is_answered_with_a_sentence(many: Client, question: str, status: int, says: str) -> None:
    answer = many.get(f"/api/{question}")

    assert (answer.status, says in answer.json["error"]) == (status, True), answer.json


def painted(client: Client, color: str | None) -> int:
    return client.post("/api/edit", {"root": 0, "uid": "w16-0", "changes": {"tags": {"color": color}}}).status


def test_a_color_is_a_tag_of_the_run(many: Client) -> None:
    assert painted(many, "#123abc") == 200
    assert asked(many, "search", q="tags.color = '#123abc'")["rows"][0]["color"] == "#123abc"

    assert painted(many, None) == 200
    assert asked(many, "search", q="name = 'w16-0'")["rows"][0]["color"] == ""


def test_a_tag_that_names_no_color_is_none(many: Client) -> None:
    assert painted(many, "red; background: url(//evil.example)") == 200
    assert asked(many, "search", q="name = 'w16-0'")["rows"][0]["color"] == ""
    assert set(asked(many, "points", q="name = 'w16-0'")["colors"]) == {""}


def test_colors_of_charts_are_asked_for_by_key(client: Client) -> None:
    assert client.get("/api/colors?run=0/first&run=0/group/second").json == {}
    edited = client.post("/api/edit", {"run": "0/first", "changes": {"tags": {"color": "#123abc"}}})

    assert edited.status == 200
    assert client.get("/api/colors?run=0/first&run=0/group/second").json == {"0/first": "#123abc"}
    assert client.get("/api/colors?run=7/first").status == 404


def test_now_shows_live_runs_and_the_newest_others(root: Path) -> None:
    recorded(root / "broken", [1.0])
    (root / "broken" / "run.json").write_text("{")
    found = Client(application([str(root)], hosts=["127.0.0.1"])).get("/api/now").json

    assert sorted(run["key"] for run in found["runs"]) == ["0/first", "0/group/second"]
    assert (found["count"], found["live"]) == (2, 0)
    assert "broken" in found["indexing"][0]["problems"][0]


def test_a_new_run_is_listed_after_two_seconds(root: Path) -> None:
    clock = ManualClock()
    client = Client(application([str(root)], hosts=["127.0.0.1"], clock=clock))
    assert client.get("/api/search").json["count"] == 2
    recorded(root / "third", [1.0])

    assert client.get("/api/search").json["count"] == 2
    clock.advance(3.0)
    assert client.get("/api/search").json["count"] == 3


def test_the_usual_columns_of_a_search_are_the_same_from_every_route(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    for number, recorded_too in enumerate(({"parameters": {"seed": 1}}, {"metrics": {"acc": 0.5}}, {})):
        catalog.tell(component(f"r{number}", kind="run", time_unix=NOW_UNIX + number, **recorded_too))
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))

    for search, expected in (("", ["state", "findings", "metrics.acc.last", "params.seed", "created_unix"]),
                             ("name = 'r0'", ["state", "findings", "params.seed", "created_unix"])):
        assert asked(client, "search", q=search)["columns"] == expected
        assert asked(client, "columns", q=search)["usual"] == expected
