"""What the page gets when it asks."""

from __future__ import annotations

import gzip
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url
from barograph.web.app import application
from barograph.web.page_digest import BUILT, is_stale
from barograph.web.questions import QUESTIONS
from diary import Diary
from web_client import Client


def test_the_runs_are_listed_with_keys_that_open_them(client: Any) -> None:
    runs = client.get("/api/now").json["runs"]

    assert sorted(run["key"] for run in runs) == ["0/first", "0/group/second"]
    for run in runs:
        assert client.get(f"/api/run?run={run['key']}").json["name"] == run["name"]


def test_an_answer_that_the_page_has_already_has_no_body(client: Any) -> None:
    first = client.get("/api/run?run=0/first")
    again = client.get("/api/run?run=0/first", {"if-none-match": first.headers["etag"]})

    assert (again.status, again.body) == (304, b"")


def test_a_curve_has_its_extremes_and_where_it_is_nan(client: Any) -> None:
    (line,) = client.get("/api/curves?run=0/group/second&name=loss").json

    assert (line["steps"], line["values"]) == ([0, 1, 2], [3.0, None, 2.5])
    assert (line["least"], line["greatest"], line["nonfinite"], line["nonfinite_steps"]) == (2.5, 3.0, 1, [[1, 1]])


def test_several_runs_are_answered_in_the_order_of_the_question(client: Any) -> None:
    found = client.get("/api/curves?run=0/group/second&run=0/first&name=loss").json

    assert [lines[0]["last"] for lines in found] == [2.5, 1.0]


def test_runs_are_searched_and_sorted_a_page_at_a_time(client: Any) -> None:
    found = client.get("/api/search?q=metrics.loss.last+%3E+0.5&order=metrics.loss.last+asc&limit=1").json
    last = client.get("/api/search?order=metrics.loss.last+asc&offset=1").json

    assert (found["count"], [row["key"] for row in found["rows"]]) == (2, ["0/first"])
    assert [row["key"] for row in last["rows"]] == ["0/group/second"]


def test_a_wrong_search_points_at_the_place(client: Any) -> None:
    answer = client.get("/api/search?q=params.lr+%3E")

    assert answer.status == 400
    assert answer.json["error"].endswith("params.lr >\n             ^")


def test_a_run_without_a_metric_has_no_line_beside_others(client: Any) -> None:
    found = client.get("/api/curves?run=0/group/second&run=0/first&name=loss&name=learning_rate:group0").json

    assert [[line["name"] for line in lines] for lines in found] == [["loss"], ["loss"]]


def test_a_run_that_has_no_loss_yet_has_no_line(client: Any, root: Path) -> None:
    diary = Diary("starting", store_from_url(str(root / "starting")))
    diary.step(0, {"scalar:acc": 1.0})
    diary.publish()

    answer = client.get("/api/curves?run=0/starting&name=loss")

    assert (answer.status, answer.json) == (200, [])


def test_a_loss_that_the_script_logs_under_another_name_is_shown_as_the_loss(client: Any, root: Path) -> None:
    diary = Diary("logging", store_from_url(str(root / "logging")))
    diary.step(0, {"scalar:acc": 0.5, "scalar:train/loss": 2.0, "scalar:val/loss": 3.0})
    diary.publish()

    (line,) = client.get("/api/curves?run=0/logging&name=loss").json

    assert (line["name"], line["values"]) == ("train/loss", [2.0])
    assert client.get("/api/curves?run=0/logging&name=loss&name=train/loss").json == [line]


def test_a_card_and_a_run_have_the_loss_that_their_curve_ends_at(client: Any, root: Path) -> None:
    named = {"logging": {"Train/Loss": 2.0, "val/loss": -8.0}, "plain": {"loss": 2.0, "a/loss": -8.0},
             "none": {"acc": 2.0}, "broken": {"loss": nan}}
    for name, firsts in named.items():
        diary = Diary(name, store_from_url(str(root / name)))
        diary.manifest = replace(diary.manifest, run_id=name)
        for step in range(3):
            diary.step(step, {f"scalar:{loss}": first - step for loss, first in firsts.items()})
        diary.ended()

    cards = {run["key"]: run["loss"] for run in client.get("/api/now").json["runs"]}

    assert [cards[f"0/{name}"] for name in named] == [0.0, 0.0, None, "NaN"]
    assert {key: client.get(f"/api/run?run={key}").json["loss"] for key in cards} == cards


def test_a_gradient_norm_that_is_nan_is_no_missing_one(client: Any) -> None:
    steps = client.get("/api/step?run=0/group/second&step=1").json["steps"]

    assert [(row["gradient_norm"], row["update_ratio"]) for row in steps] == [(3.0, None), ("NaN", None), (2.5, None)]


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_question_has_an_answer(client: Any, name: str) -> None:
    answer = client.get(f"/api/{name}?run=0/first&step=1&name=loss")

    assert answer.status == 200, answer.body
    assert answer.json is not None


@pytest.mark.parametrize(("question", "status", "says"), [
    ("run?run=0/third", 404, "no run"),
    ("run?run=7/first", 404, "No run is called"),
    ("run?run=0/../../etc", 404, "No run is called"),
    ("run?run=0//first", 404, "No run is called"),
    ("run?run=0/first%00", 404, "No run is called"),
    ("curves?run=0/first&name=lss", 404, 'Did you mean "loss"'),
    ("curves?run=0/first&name=loss&points=many", 400, "expected an integer"),
    ("curves?run=0/first&name=loss&points=1", 400, "points is 1"),
    ("step?run=0/first", 400, "step is missing"),
    ("heat?run=0/first&statistic=nrm", 404, 'Did you mean "norm"'),
    ("heat?run=0/first&kind=gradent", 404, "gradient"),
])
def test_a_wrong_question_is_answered_with_a_sentence(client: Any, question: str, status: int, says: str) -> None:
    answer = client.get(f"/api/{question}")

    assert answer.status == status
    assert says in answer.json["error"]


def test_a_link_out_of_the_served_directory_is_not_followed(client: Any, root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(root.parent / "elsewhere")
    (tmp_path / "elsewhere").mkdir()

    answer = client.get("/api/run?run=0/link")

    assert (answer.status, "not served" in answer.json["error"]) == (404, True)


def test_a_step_recorded_meanwhile_is_in_the_next_answer(root: Path) -> None:
    clock = ManualClock()
    client = Client(application([str(root)], hosts=["127.0.0.1"], clock=clock))
    diary = Diary("live", store_from_url(str(root / "live")))
    diary.step(0, {"loss:total": 4.0})
    diary.publish()
    before = client.get("/api/numbers?run=0/live").json
    diary.step(1, {"loss:total": 3.0})
    diary.publish()

    assert before[0]["count"] == 1
    clock.advance(1.0)
    assert client.get("/api/numbers?run=0/live").json[0]["count"] == 2


def test_a_long_answer_is_compressed(client: Any) -> None:
    answer = client.get("/api/run?run=0/first", {"accept-encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).startswith(b"{")


def test_scripts_of_the_page_are_sent_compressed_where_the_client_takes_that_and_for_good(client: Any) -> None:
    (script,) = (BUILT / "assets").glob("index-*.js")

    packed = client.get(f"/assets/{script.name}", {"accept-encoding": "gzip, br"})
    plain = client.get(f"/assets/{script.name}")

    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(packed.body) == plain.body == script.read_bytes()
    assert packed.headers["content-type"] == plain.headers["content-type"]
    assert packed.headers["cache-control"] == plain.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_the_page_was_built_from_its_sources() -> None:
    assert not is_stale(), "build it: python building/barograph_build.py"


def test_the_licenses_of_what_the_script_contains_are_installed_with_it() -> None:
    text = (BUILT / "licenses.md").read_text(encoding="utf-8")

    assert "Permission is hereby granted" in text
    assert [name for name in ("svelte", "uplot") if f"## {name} - " not in text] == []


def test_the_page_loads_nothing_from_other_hosts(client: Any) -> None:
    page = client.get("/")

    assert page.status == 200
    assert b"//" not in page.body.replace(b"http://www.w3.org", b"")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
