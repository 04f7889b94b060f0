"""Questions about charts, layers and steps: several runs at once, and none stops the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from barograph.model.exhibits import Picture
from barograph.store.urls import store_from_url
from barograph.web import charting
from barograph.web.charting import QUESTIONS
from diary import Diary


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_question_has_an_answer(client: Any, name: str) -> None:
    answer = client.get(f"/api/{name}?run=0/first&step=1&name=loss&kind=gradient&layer=fc")

    assert answer.status == 200, answer.body
    assert answer.json is not None


def test_a_run_that_cannot_be_read_does_not_hide_the_others(client: Any) -> None:
    first, gone, second = client.get("/api/lines?run=0/first&run=0/gone&run=0/group/second&name=loss&name=acc").json

    assert [line["last"] for line in (*first["lines"], *second["lines"])] == [1.0, 2.5]
    assert (first["missing"], "no run" in gone["error"]) == (["acc"], True)


def test_nan_is_null_between_finite_values(client: Any) -> None:
    (line,) = client.get("/api/lines?run=0/group/second&name=loss&x=time&smooth=1").json["lines"]

    assert (line["values"], line["means"]) == ([3.0, None, 2.5], [3.0, None, 2.5])
    assert len(line["positions"]) == 3
    assert line["nonfinite_at"] == [[line["positions"][1]] * 2]


@pytest.mark.parametrize(("question", "says"), [
    ("lines?run=0/first&name=loss&points=1", "points is 1"),
    ("lines?run=0/first&name=loss&from=nan", "expected a number"),
    ("lines?run=0/first&name=loss&x=epch", "no"),
    ("charts?run=0/first&search=(", "Not a regular expression"),
    ("everything?run=0/first", "step is missing"),
    ("cells?run=0/first&statistic=nrm", 'Did you mean "norm"'),
])
def test_a_wrong_question_is_answered_with_a_sentence(client: Any, question: str, says: str) -> None:
    answer = client.get(f"/api/{question}")

    assert answer.status in (400, 404)
    assert says in answer.json["error"]


def test_a_hundred_thousand_names_do_not_travel(root: Path, client: Any) -> None:
    diary = Diary("wide", store_from_url(str(root / "wide")))
    diary.step(0, {"loss:total": 1.0, **{f"scalar:group{number % 50}/metric{number}": 1.0 for number in range(20_000)}})
    diary.ended()

    answers = {name: client.get(f"/api/{name}?run=0/wide") for name in ("run", "charts", "names")}
    found = client.get("/api/charts?run=0/wide&search=metric19999$").json

    assert {name: len(answer.body) < 200_000 for name, answer in answers.items()} == dict.fromkeys(answers, True)
    assert answers["run"].json["chart_count"] == answers["charts"].json["count"] == 20_001
    assert len(answers["names"].json["rows"]) == 51
    assert [chart["title"] for chart in found["charts"]] == ["group49/metric19999"]


def test_an_image_is_no_page(root: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture("<b>", "image/svg+xml", b"<svg onload='alert(1)'/>")
    monkeypatch.setattr(charting, "exhibits_of_run", lambda store, uid: (picture,))

    answer = client.get("/api/picture?run=0/first&title=%3Cb%3E")
    other = client.get("/api/picture?run=0/first&title=other")

    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, picture.data, "image/svg+xml")
    assert answer.headers["content-disposition"] == "attachment"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert other.status == 404


def test_no_more_runs_are_read_for_a_client_that_has_gone(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    async def gone(request: Request) -> bool:
        return len(read) > 0

    monkeypatch.setattr(Request, "is_disconnected", gone)
    monkeypatch.setattr(charting, "chart_lines", lambda reader, names, **more: read.append(reader.url) or [])

    answer = client.get("/api/lines?run=0/first&run=0/group/second&name=loss")

    assert (answer.status, len(read)) == (499, 1)
