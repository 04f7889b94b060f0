"""What a browser loads, and what it no longer waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from diary import Diary

pytestmark = needs_chromium
CHARTS, TABS = 80, 12
MOST_BYTES, MOST_REQUESTS = 200_000, 12


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("bars") / "runs"
    diary = Diary("many", store_from_url(str(root / "many")))
    for step in range(20):
        diary.step(step, {f"scalar:metric{number:02}": float(step * number) for number in range(CHARTS)})
    diary.publish()  # it goes on
    other = Diary("few", store_from_url(str(root / "few")))
    other.manifest = replace(other.manifest, run_id="20260101T000000Z-few")
    other.step(0, {"scalar:metric00": 1.0})
    other.publish()
    with served(application([str(root)], hosts=[])) as url:
        yield url


def test_the_first_load_is_small_and_asks_no_other_host(browser: Any, url: str) -> None:
    tab = Tab(browser)
    session, sizes = tab.context.new_cdp_session(tab.page), []
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))

    page = tab.settled(f"{url}#/runs")
    playwright.expect(page.get_by_role("link", name="many")).to_be_visible()

    assert 100_000 < sum(sizes) <= MOST_BYTES
    assert len(sizes) <= MOST_REQUESTS
    assert tab.hosts - {""} == {url.split("/")[2]}
    assert tab.complaints == []
    tab.context.close()


@pytest.mark.parametrize(("address", "asked"), [
    ("", ["now"]),
    ("#/runs", ["search"]),
    ("#/runs?q=state+%3D+%27running%27&order=name+asc&column=state%0Asteps&differs=1&filter=steps+%3E+0", ["search"]),
    ("#/run/0/many", ["run"]),
    ("#/run/0/many?tab=charts&chart=metric1&pin=metric11", ["run", "charts"]),
    ("#/compare?run=0/many&run=0/few", ["run", "charts"]),
])
def test_what_a_page_shows_first_is_asked_for_before_its_script_is_there_and_once(
    browser: Any, url: str, address: str, asked: list[str]
) -> None:
    tab = Tab(browser)
    scripts: list[Any] = []
    questions: list[str] = []

    def heard(request: Any) -> None:
        # A question that is repeated names the version of the answer that is there.
        if "/api/" in request.url and "if-none-match" not in request.headers:
            questions.append(request.url)

    tab.page.route("**/assets/*.js", lambda route: scripts.append(route))
    tab.page.on("request", heard)
    tab.page.goto(f"{url}{address}", wait_until="commit")
    tab.until(lambda: bool(scripts) and len(questions) == len(asked), "the first questions")
    early = sorted(questions)

    scripts[0].continue_()

    playwright.expect(tab.page.locator("main[aria-busy=false]")).to_be_visible()
    assert sorted(question.split("/api/")[1].split("?")[0] for question in early) == sorted(asked)
    assert sorted(question for question in questions if question in early) == early
    assert tab.complaints == []
    tab.context.close()


def test_charts_that_were_scrolled_away_are_no_longer_waited_for_and_the_last_are_drawn(browser: Any, url: str) -> None:
    tab = Tab(browser)
    held: list[Any] = []
    given_up: list[str] = []
    scrolled = False
    tab.page.on("requestfailed", lambda request: given_up.append(f"{request.failure} {request.url}"))
    # Later requests pass here, too: without this route, the browser would send those that are held.
    tab.page.route("**/api/lines?*", lambda route: route.continue_() if scrolled else held.append(route))
    page = tab.open(f"{url}#/run/0/many?tab=charts")
    tab.until(lambda: bool(held), "the first charts are asked for")

    scrolled = True
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")

    playwright.expect(page.get_by_role("figure", name=f"metric{CHARTS - 1:02}").locator("canvas")).to_be_visible()
    tab.until(lambda: any("ERR_ABORTED" in text and "/api/lines" in text for text in given_up), "given up")
    tab.context.close()


def test_twelve_tabs_of_a_live_run_all_load(browser: Any, url: str) -> None:
    context = browser.new_context()
    pages = [context.new_page() for _ in range(TABS)]
    for page in pages:
        page.goto(f"{url}#/run/0/many")

    for page in pages:
        playwright.expect(page.get_by_role("heading", name="many")).to_be_visible()
    context.close()
