"""The main promises of the page below a path of a reverse proxy, as nginx serves it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from diary import Diary
from proxies import proxied

pytestmark = needs_chromium
PREFIX = "/a/b"
RUNS, KEYS = 70, 500


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefix") / "runs"


@pytest.fixture(scope="module")
def live(root: Path) -> Diary:
    for number in range(RUNS):
        diary = Diary(f"run{number:02}", store_from_url(str(root / f"run{number:02}")))
        diary.manifest = replace(diary.manifest, run_id=f"run{number:02}")
        diary.step(0, {"loss:total": float(number)})
        diary.ended()
    names = {f"scalar:layer{key // 10:02}/unit{key}": 1.0 for key in range(KEYS)}
    diary = Diary("live", store_from_url(str(root / "live")))
    for step in range(2000):
        loss = 100.0 if step == 1777 else math.nan if step == 500 else 1.0
        diary.step(step, {"loss:total": loss, **(names if step == 0 else {})},
                   {"output:fc": [0.0, 0.0]} if step < 5 else {})
    diary.publish()
    return diary


@pytest.fixture(scope="module")
def below(root: Path, live: Diary) -> Iterator[tuple[str, list[str]]]:
    """Address of the proxy, and every path that it was asked for."""
    with served(application([str(root)], hosts=[])) as url, \
            proxied(int(url.rstrip("/").rpartition(":")[2]), PREFIX) as (address, asked, _):
        yield address, asked


@pytest.fixture
def tab(browser: Any, below: tuple[str, list[str]]) -> Iterator[Tab]:
    tab = Tab(browser)
    yield tab
    # The proxy lets no sockets through: the page asks instead.
    assert [text for text in tab.complaints if not text.startswith("WebSocket connection")] == []
    assert [path for path in below[1] if not path.startswith(f"{PREFIX}/") and path != "/favicon.ico"] == []
    tab.context.close()


def test_the_first_load_is_small_and_stays_below(tab: Tab, below: tuple[str, list[str]]) -> None:
    session, sizes = tab.context.new_cdp_session(tab.page), []
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page = tab.settled(f"{below[0]}#/runs")

    playwright.expect(page.get_by_role("status").filter(has_text=f"{RUNS + 1} runs")).to_be_visible()
    assert sum(sizes) <= 200_000
    assert tab.hosts - {""} == {below[0].split("/")[2]}


def test_a_long_list_is_scrolled_and_sorted(tab: Tab, below: tuple[str, list[str]]) -> None:
    page = tab.settled(f"{below[0]}#/runs?order=name+desc")
    page.get_by_role("region", name="Runs").focus()
    page.keyboard.press("End")
    playwright.expect(page.get_by_role("link", name="live")).to_be_visible()
    assert page.locator("tr.row").count() <= 60

    page.get_by_role("button", name="loss", exact=True).click()
    playwright.expect(page.locator("tr.row").first.get_by_role("link")).to_have_text("run00")


def test_the_spike_and_the_nan_are_shown_and_a_name_is_found(tab: Tab, below: tuple[str, list[str]]) -> None:
    page = tab.settled(f"{below[0]}#/run/0/live?tab=charts")
    chart = page.get_by_role("figure", name="loss", exact=True)
    playwright.expect(chart.locator("canvas")).to_be_visible()
    playwright.expect(chart).to_contain_text("1 NaN or infinite value")
    page.get_by_label("Search charts").fill("unit499$")
    playwright.expect(page.get_by_role("figure")).to_have_count(1)
    playwright.expect(page.get_by_role("figure", name=re.compile("unit499"))).to_be_visible()


def test_a_step_appears_and_the_view_stays(tab: Tab, below: tuple[str, list[str]], live: Diary) -> None:
    page = tab.settled(f"{below[0]}#/run/0/live?from=100&to=300")
    live.step(2000, {"loss:total": 1.0})
    live.publish()

    playwright.expect(page.locator(".head")).to_contain_text("2,001 steps")
    assert page.url.endswith("from=100&to=300")


def test_a_link_shows_the_same_to_others_and_the_back_button_works(
    tab: Tab, browser: Any, below: tuple[str, list[str]]
) -> None:
    other = Tab(browser)
    for state in ("#/now", "#/runs?q=name+%3D+%27live%27", "#/compare?run=0%2Frun00&run=0%2Frun01",
                  "#/run/0/live?tab=layers&layer=fc", "#/run/0/live?tab=step&step=3"):
        shown = tab.settled(f"{below[0]}{state}").locator("main")
        same = other.settled(f"{below[0]}{state}").locator("main")
        other.until(lambda: bool(same.inner_text() == shown.inner_text()), f"{state} is the same:")  # noqa: B023
    other.context.close()
    page = tab.settled(f"{below[0]}#/runs?q=name+%3D+%27live%27")
    page.get_by_role("link", name="live").click()
    playwright.expect(page.get_by_role("heading", name="live")).to_be_visible()
    page.go_back()
    playwright.expect(page.get_by_role("status").filter(has_text="1 run")).to_be_visible()
