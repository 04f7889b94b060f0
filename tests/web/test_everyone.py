"""Every page for everyone: by keyboard, with a screen reader, enlarged, on a phone, and from a link."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.handle import catalog_at
from barograph.model.finding import Severity
from barograph.model.items import Entry, Verb
from barograph.runs.state.findings import write_event
from barograph.store.urls import store_from_url
from barograph.web.app import application
from barograph.web.page_digest import SOURCES
from chromium import AXE, Tab, fits, needs_chromium, playwright, served, violations
from chromium import browser as browser
from chromium import tab as tab
from diary import Diary, finding_of

pytestmark = needs_chromium
RUN = "#/run/0/first"
STATES = [
    "#/now", "#/runs", "#/runs?q=metrics.loss.last+%3E+1&order=name+asc", "#/jobs",
    "#/compare?run=0%2Ffirst&run=0%2Fsecond", RUN,
    f"{RUN}?from=10&to=60", f"{RUN}?tab=charts&log=1&smooth=40", f"{RUN}?tab=layers&layer=fc&step=3",
    f"{RUN}?tab=step&step=77", f"{RUN}?tab=data", f"{RUN}?tab=time", f"{RUN}?tab=output", f"{RUN}?tab=environment",
    f"{RUN}?tab=inside", f"{RUN}?tab=files", f"{RUN}?tab=lineage", "#/deleted", "#/runs?chart=scatter",
    "#/runs?chart=curves&metric=metrics.loss.last&by=params.seed", "#/runs?chart=parallel", "#/runs?chart=importance",
    "#/run/0/nothing", "#/nothing",
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("everyone") / "runs"
    for name in ("first", "second", "third"):
        diary = Diary(name, store_from_url(str(root / name)))
        diary.manifest = replace(diary.manifest, run_id=name)
        for step in range(100):
            diary.step(step, {"loss:total": math.sin(step / 9) + 2, "scalar:accuracy": step / 100},
                       {"gradient:fc.weight": [step, 0.0], "output:fc": [0.0, 0.0]})
        diary.ended()
    catalog = catalog_at(str(root))
    catalog.feed()
    catalog.tell([Entry(name, Verb.PARAMETERS, {"seed": place}) for place, name in enumerate(("first", "second"))])
    write_event(store_from_url(str(root / "first")), finding_of(Severity.BREAKING))
    with served(application([str(root)], hosts=[])) as url:
        yield url


def difference(one: Any, other: Any) -> str:
    """Return the lines that two elements do not have in common, as a patch; "" if they show the same."""
    return "\n".join(unified_diff(one.inner_text().splitlines(), other.inner_text().splitlines(), lineterm=""))


def test_a_link_shows_the_same_to_others_at_each_size_and_for_a_screen_reader(
    tab: Tab, browser: Any, url: str
) -> None:
    if not AXE.is_file():
        pytest.skip("the page was built elsewhere: there is no axe-core")
    other = Tab(browser, color_scheme="dark")
    for state in STATES:
        # Not loaded anew: what the page has shown before changes nothing.
        page = tab.open(f"{url}{state}")
        playwright.expect(page.locator("main[aria-busy=false]")).to_be_visible()
        shown, same = page.locator("main"), other.settled(page.url).locator("main")
        tab.until(lambda: not difference(shown, same), lambda: f"{state}: {difference(shown, same)}")  # noqa: B023
        assert page.url == other.page.url
        assert violations(page) == [], state
        assert violations(other.page, "color-contrast") == [], state
        for width in (640, 390, 1280):  # 640 pixels are 1,280 at 200%
            page.set_viewport_size({"width": width, "height": 800})
            tab.until(partial(fits, page), f"{state} fits into {width} pixels:")
    other.context.close()


def test_a_run_is_found_opened_and_left_by_keyboard_alone(tab: Tab, url: str) -> None:
    page = tab.settled(url)
    keys = page.keyboard
    keys.press("Tab")
    playwright.expect(page.get_by_role("button", name="Skip to the content")).to_be_in_viewport()
    keys.press("Enter")
    playwright.expect(page.get_by_role("main")).to_be_focused()
    assert page.url in (url, f"{url}#/now"), "the skip link is no page"

    keys.press("g")
    keys.press("r")
    playwright.expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    playwright.expect(page.get_by_role("link", name="second")).to_be_visible()
    keys.press("j")
    first = page.evaluate("document.activeElement.textContent")
    keys.press("j")
    keys.press("x")
    playwright.expect(page.get_by_role("checkbox", checked=True)).to_have_count(1)
    keys.press("k")
    assert page.evaluate("document.activeElement.textContent") == first
    keys.press("/")
    playwright.expect(page.get_by_role("combobox", name="Search runs")).to_be_focused()
    keys.insert_text("name contains ''")
    keys.press("ArrowLeft")
    keys.type("j?")
    playwright.expect(page.get_by_role("dialog")).to_have_count(0)

    keys.press("Control+k")
    box = page.get_by_role("combobox", name="Search pages")
    playwright.expect(box).to_be_focused()
    keys.type("thir")
    option = page.get_by_role("option", name="third")
    playwright.expect(option).to_have_attribute("aria-selected", "true")
    assert violations(page) == []
    keys.press("Enter")
    playwright.expect(page.get_by_role("heading", name="third")).to_be_visible()
    playwright.expect(page.get_by_role("main")).to_be_focused()

    keys.press("Control+k")
    playwright.expect(page.get_by_role("option", name="Layers")).to_be_visible()
    keys.type("metrics accuracy")
    playwright.expect(page.get_by_role("option")).to_have_count(1)
    keys.press("Enter")
    playwright.expect(page.get_by_role("figure")).to_have_count(1)
    page.go_back()
    playwright.expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    keys.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    playwright.expect(dialog).to_be_visible()
    assert violations(page) == []
    keys.press("Escape")
    playwright.expect(dialog).to_have_count(0)
    page.go_back()
    playwright.expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert tab.complaints == []


def test_the_build_has_no_axe_inside() -> None:
    scripts = list(Path(SOURCES.parent, "static").rglob("*.js"))

    assert scripts
    assert not any("axe.run" in path.read_text(encoding="utf-8") for path in scripts)
