"""Colors of runs in a real browser: runs that are shown together differ, and keep their colors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barograph.experiments.handle import catalog_at
from barograph.web.app import application
from chromium import Tab, needs_chromium, served
from chromium import browser as browser
from chromium import tab as tab
from web_client import recorded

pytestmark = needs_chromium
COUNT = 20


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("colors") / "runs"
    for number in range(COUNT):
        recorded(root / f"run-{number}", [3.0, 2.0])
    catalog_at(str(root)).feed()
    with served(application([str(root)], hosts=[])) as url:
        yield url


def colors(page: Any) -> list[str]:
    found: list[str] = page.locator("[aria-label=Results] thead i").evaluate_all(
        "(marks) => marks.map((mark) => mark.style.background)")
    return found


def compared(url: str, count: int) -> str:
    return f"{url}#/compare?{'&'.join(f'run=0/run-{number}' for number in range(count))}"


def test_twenty_runs_have_twenty_colors_and_another_run_changes_none(tab: Tab, url: str) -> None:
    some, all_of_them = (colors(tab.settled(compared(url, count))) for count in (COUNT - 3, COUNT))

    assert len(set(all_of_them)) == COUNT
    assert all_of_them[:COUNT - 3] == some


def test_runs_of_a_chart_have_the_colors_of_its_list(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/runs?chart=curves&metric=metrics.loss.last")
    listed = page.locator(".table .swatch").evaluate_all("(marks) => marks.map((mark) => mark.style.background)")

    assert (len(set(listed)), len(listed)) == (COUNT, COUNT)


def test_a_color_that_a_user_chose_wins_over_the_usual_color_of_another_run(tab: Tab, url: str) -> None:
    page = tab.settled(compared(url, 2))
    before = colors(page)
    page.evaluate("""(color) => fetch("api/edit", {method: "POST", headers: {"content-type": "application/json"},
        body: JSON.stringify({run: "0/run-1", changes: {tags: {color}}})})""", as_hex(before[0]))
    after = colors(tab.settled(compared(url, 2)))

    assert (after[1], after[0] == before[0]) == (before[0], False)


def as_hex(color: str) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in color.removeprefix("rgb(").removesuffix(")").split(","))
