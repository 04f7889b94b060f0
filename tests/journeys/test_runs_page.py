"""The page of runs in a real browser, with ten thousand runs: which is best, and is that more than luck?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.handle import catalog_at
from barograph.experiments.judging import judged
from chromium import CHROMIUM, served
from chromium import browser as browser

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.many_runs import fill

playwright = pytest.importorskip("playwright.sync_api")
uvicorn = pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

RUNS = 10_000
_LONGEST_MS = 60_000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    fill(str(root), RUNS)
    return root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    from barograph.web.app import application

    with served(application([str(root)], hosts=["127.0.0.1"])) as url:
        yield url


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(_LONGEST_MS)
    playwright.expect.set_options(timeout=_LONGEST_MS)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


def test_ten_thousand_runs_are_counted_scrolled_and_sorted_with_few_rows_on_the_page(
    page: Any, url: str, root: Path
) -> None:
    page.goto(f"{url}#/runs")
    rows = page.locator("tr.row")
    playwright.expect(page.get_by_role("status").filter(has_text="10,000 runs")).to_be_visible()
    assert 10 < rows.count() <= 60

    table = page.get_by_role("region", name="Runs")
    table.focus()
    page.keyboard.press("End")
    playwright.expect(page.get_by_role("link", name="trial-00000-0", exact=True)).to_be_visible()
    assert rows.count() <= 60

    page.get_by_role("button", name="val/acc", exact=True).click()
    playwright.expect(page.get_by_role("columnheader", name="val/acc")).to_have_attribute("aria-sort", "descending")
    best = catalog_at(root).find('kind = \'run\' order by metrics."val/acc".last desc limit 1')[0]
    playwright.expect(rows.first.get_by_role("link")).to_have_text(best.name)
    assert "order=" in page.url


def test_a_search_is_completed_with_the_keyboard_and_its_error_is_underlined(page: Any, url: str) -> None:
    page.goto(f"{url}#/runs")
    box = page.get_by_role("combobox", name="Search runs")
    box.press_sequentially("opti")
    playwright.expect(page.get_by_role("option").first).to_contain_text("params.optimizer")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    box.press_sequentially("= 'sg")
    playwright.expect(page.get_by_role("option").first).to_contain_text("'sgd'")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    playwright.expect(box).to_have_value("params.optimizer = 'sgd' ")
    playwright.expect(page.get_by_role("status").filter(has_text=re.compile(r"^3,\d\d\d runs"))).to_be_visible()

    box.press_sequentially("and widht > 3")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("mark")).to_have_text("widht")
    playwright.expect(page.get_by_role("alert")).to_contain_text('no field "widht"')
    playwright.expect(page.get_by_role("status").filter(has_text=re.compile(r"^3,\d\d\d runs"))).to_be_visible()


def test_groups_show_the_verdict_that_compare_prints_and_open_to_their_runs(page: Any, url: str, root: Path) -> None:
    question = "name like 'trial-0000%'"
    expected = judged(catalog_at(root).find(f"({question}) and kind = 'run'"), "params.width", "val/acc")
    page.goto(f"{url}#/runs?q={question.replace('%', '%25')}")
    page.get_by_label("Group by").select_option("params.width")

    playwright.expect(page.get_by_text(expected.sentence)).to_be_visible()
    groups = page.get_by_role("region", name="Groups")
    playwright.expect(groups.locator("tbody").first).to_contain_text(f"width = {expected.groups[0].name}")
    groups.get_by_role("button", expanded=False).first.click()
    groups.get_by_role("button", name=re.compile("^Choose these")).click()
    playwright.expect(page.get_by_role("link", name=re.compile(r"Compare \d+ runs"))).to_be_visible()


def test_charts_narrow_the_list_and_the_address_shows_the_same_to_others(page: Any, url: str, browser: Any) -> None:
    page.goto(f"{url}#/runs?q=name like 'trial-0000%25'")
    page.get_by_role("button", name="Scatter").click()
    box = page.get_by_role("region", name="Scatter plot").get_by_role("img").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 290, steps=4)
    page.mouse.up()
    chips = page.get_by_role("list", name="Conditions").get_by_role("listitem")
    playwright.expect(chips).to_have_count(2)
    status = page.get_by_role("status").filter(has_text=re.compile(r"\d runs$")).first
    playwright.expect(status).not_to_have_text("50 runs")

    page.get_by_role("button", name="Importance").click()
    playwright.expect(page.get_by_role("row").filter(has_text="lr").first).to_be_visible()
    page.get_by_role("button", name="Parallel").click()
    playwright.expect(page.get_by_role("region", name="Parallel coordinates").get_by_role("img")).to_be_visible()
    playwright.expect(page.get_by_role("button", name=re.compile("^Clear the range of"))).to_have_count(2)
    text = status.inner_text()

    other = browser.new_context().new_page()
    other.goto(page.url)
    playwright.expect(other.get_by_role("status").filter(has_text=text).first).to_be_visible()
    other.context.close()


def test_a_color_and_columns_are_kept(page: Any, url: str, root: Path) -> None:
    page.goto(f"{url}#/runs?order=name asc&column=params.lr")
    page.get_by_role("button", name="Color of trial-00000-0").click()
    page.get_by_role("dialog").get_by_role("button").nth(2).click()
    playwright.expect(page.get_by_role("dialog")).to_have_count(0)
    assert re.fullmatch("#[0-9a-f]{6}", catalog_at(root).find("name = 'trial-00000-0'")[0].tags["color"])

    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Find a column").fill("width")
    page.get_by_role("checkbox", name=re.compile("^width")).check()
    page.get_by_role("button", name="Move width left").click()
    page.keyboard.press("Escape")
    heads = page.locator("thead th")
    playwright.expect(heads).to_have_text([re.compile("Run"), "width", "lr"])
    page.reload()
    playwright.expect(heads).to_have_text([re.compile("Run"), "width", "lr"])


def test_after_an_invalid_search_all_columns_can_be_chosen_and_grouped_by(browser: Any, url: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(_LONGEST_MS)
    playwright.expect.set_options(timeout=_LONGEST_MS)
    page.goto(f"{url}#/runs?q=loss+%3C")

    playwright.expect(page.get_by_text("This search is invalid.")).to_be_visible()
    playwright.expect(page.get_by_label("Group by").locator("option", has_text="lr")).to_be_attached()
    page.get_by_role("button", name="Columns").click()
    columns = page.get_by_role("dialog", name="Columns")
    playwright.expect(columns.get_by_role("checkbox", name="val/acc 10,000 runs")).to_be_visible()
    context.close()
