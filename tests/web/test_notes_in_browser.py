"""What people wrote about a run, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from web_client import Client, recorded

pytestmark = needs_chromium
WRITTEN = {
    "marked": "**wide** uses `--lr 0.1`, see http://127.0.0.1:1/a",
    "stars": "**kwargs were dropped here",
    "tick": "`unclosed code at the end",
    "tags": "<b>bold</b>",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("notes") / "runs"
    for name in WRITTEN:
        recorded(root / name, [3.0])
    app = application([str(root)], hosts=[])
    for name, text in WRITTEN.items():
        Client(app).post("/api/edit", {"run": f"0/{name}", "changes": {"description": text}})
    with served(app) as url:
        yield url


@pytest.mark.parametrize(("name", "marks", "shown"), [
    ("marked", ["STRONG wide", "CODE --lr 0.1", "A http://127.0.0.1:1/a"], "wide uses --lr 0.1, see http://127.0.0.1:1/a"),
    ("stars", [], WRITTEN["stars"]),
    ("tick", [], WRITTEN["tick"]),
    ("tags", [], WRITTEN["tags"]),
])
def test_marks_are_drawn_and_no_text_is_lost(url: str, browser: Any, name: str, marks: list[str], shown: str) -> None:
    tab = Tab(browser)

    description = tab.settled(f"{url}#/run/0/{name}").locator(".description")

    playwright.expect(description).to_have_text(shown)
    assert description.locator("*").evaluate_all(
        "all => all.map((one) => `${one.tagName} ${one.textContent}`)") == marks
    tab.context.close()


def test_archiving_is_undone_also_from_another_page(url: str, browser: Any) -> None:
    tab = Tab(browser)
    page = tab.settled(f"{url}#/run/0/tags")
    page.get_by_role("button", name="Archive").click()
    playwright.expect(page.get_by_role("button", name="Unarchive")).to_be_visible()

    page.evaluate("location.hash = '#/runs?q=archived'")
    run = page.get_by_role("link", name="tags")
    playwright.expect(run).to_be_visible()
    page.get_by_role("button", name="Undo").click()

    playwright.expect(run).to_have_count(0)
    assert tab.complaints == []
    tab.context.close()


def test_what_is_wrong_with_a_search_is_not_said_of_the_next_one(url: str, browser: Any) -> None:
    tab = Tab(browser)
    page = tab.settled(f"{url}#/runs?q=steps+%3C+%3C+1")
    wrong = page.get_by_text("expected a value")
    playwright.expect(wrong.first).to_be_visible()

    page.evaluate("location.hash = '#/runs?q=steps+%3E+0'")

    playwright.expect(page.get_by_role("link", name="tags")).to_be_visible()
    playwright.expect(wrong).to_have_count(0)
    tab.context.close()
