"""A page hears that a run changed, and asks for what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url
from barograph.web.app import application
from barograph.web.changes import Changes
from barograph.web.places import Places
from chromium import LONGEST_SECS, Tab, needs_chromium, playwright, served
from chromium import browser as browser
from diary import Diary
from web_client import Client

websockets = pytest.importorskip("websockets.sync.client", reason="uvicorn needs it to serve sockets")


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    diary = Diary("live", store_from_url(str(tmp_path / "runs" / "live")))
    diary.step(0, {"loss:total": 3.0})
    diary.publish()
    return diary


def test_the_cursor_of_a_run_changes_with_it_and_outlives_the_server(diary: Diary, tmp_path: Path) -> None:
    clock = ManualClock()
    client = Client(application([str(tmp_path / "runs")], hosts=[], clock=clock))
    first = client.get("/api/changes?run=0/live&after=").json
    assert client.get(f"/api/changes?run=0/live&after={first['0/live']}").json == {}

    diary.step(1, {"loss:total": 2.0})
    diary.publish()
    clock.advance(1.0)
    second = client.get(f"/api/changes?run=0/live&after={first['0/live']}").json
    another = Client(application([str(tmp_path / "runs")], hosts=[]))
    assert second["0/live"] != first["0/live"]
    assert another.get(f"/api/changes?run=0/live&after={second['0/live']}").json == {}


def test_a_run_that_changed_is_read_again_at_once(diary: Diary, tmp_path: Path) -> None:
    clock = ManualClock()
    client = Client(application([str(tmp_path / "runs")], hosts=[], clock=clock))
    client.get("/api/changes?run=0/live")
    assert client.get("/api/numbers?run=0/live").json[0]["count"] == 1

    diary.step(1, {"loss:total": 2.0})
    diary.publish()
    clock.advance(0.2)
    client.get("/api/changes?run=0/live")
    assert client.get("/api/numbers?run=0/live").json[0]["count"] == 2


def test_a_bucket_is_asked_less_often(tmp_path: Path) -> None:
    changes = Changes(Places([str(tmp_path), "s3://bucket/runs"]))

    assert changes.every_secs("0/live") < 0.5 <= changes.every_secs("1/live")


def test_a_run_that_is_gone_has_changed(diary: Diary, tmp_path: Path) -> None:
    changes = Changes(Places([str(tmp_path / "runs")]))

    assert changes.cursors({"0/gone": "a", "7/nothing": "b"}) == {"0/gone": "", "7/nothing": ""}


@pytest.fixture
def url(diary: Diary, tmp_path: Path) -> Iterator[str]:
    with served(application([str(tmp_path / "runs")], hosts=["127.0.0.1"])) as url:
        yield url


def test_a_socket_announces_changes_and_takes_nonsense(diary: Diary, url: str) -> None:
    with websockets.connect(f"{url.replace('http', 'ws')}api/changes") as socket:
        socket.send(json.dumps({"nonsense": 1}))
        socket.send(json.dumps(["0/live", 3]))
        first = json.loads(socket.recv(timeout=LONGEST_SECS))
        diary.step(1, {"loss:total": 2.0})
        diary.publish()
        second = json.loads(socket.recv(timeout=LONGEST_SECS))

    assert list(first) == list(second) == ["0/live"]
    assert first != second


def test_a_socket_of_another_web_site_is_refused(url: str) -> None:
    with pytest.raises(Exception, match="403"), websockets.connect(
            f"{url.replace('http', 'ws')}api/changes", origin="http://evil.example"):
        pass


@needs_chromium
def test_a_step_appears_by_the_socket_alone_and_the_view_stays(diary: Diary, url: str, browser: Any) -> None:
    tab, frames = Tab(browser), []
    tab.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame)))
    tab.page.clock.install()
    page = tab.open(f"{url}#/run/0/live?tab=charts&smooth=20")
    page.get_by_label("Search charts").fill("lo")
    playwright.expect(page.get_by_text("1 step", exact=True)).to_be_visible()
    tab.until(lambda: len(frames) == 1)  # the run is announced once to whoever asks for it
    diary.step(1, {"loss:total": 2.0})
    diary.publish()
    tab.until(lambda: len(frames) == 2)

    page.clock.run_for(400)  # shorter than every pause between questions
    playwright.expect(page.get_by_text("2 steps", exact=True)).to_be_visible()
    assert page.get_by_label("Search charts").input_value() == "lo"
    assert "smooth=20" in page.url
    assert tab.complaints == []
    tab.context.close()
