"""What the page says and shows of values that are not there, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barograph.experiments.handle import catalog_at
from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from chromium import tab as tab
from diary import Diary
from experiments_entries import NOW_UNIX, component

pytestmark = needs_chromium
WITHOUT = 25


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("without")
    diary = Diary("logging", store_from_url(str(root / "logging")))
    diary.step(0, {"scalar:acc": 0.5})
    diary.ended()
    catalog = catalog_at(str(root))
    for number in range(WITHOUT + 1):
        catalog.tell(component(f"run{number:02}", kind="run", time_unix=NOW_UNIX - number,
                               metrics={"acc": 0.5} if number == WITHOUT else {"f1": 0.1}))
    with served(application([str(root)], hosts=[])) as url:
        yield url


def test_without_losses_and_tensors_nothing_is_said_about_problems(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/run/0/logging")

    playwright.expect(page.get_by_text("No losses and no tensors were recorded", exact=True)).to_be_visible()
    playwright.expect(page.get_by_text("No problems found")).to_have_count(0)


def test_the_axis_of_one_step_has_no_fractions(tab: Tab, url: str) -> None:
    tab.page.add_init_script("""
        window.drawn = [];
        const draw = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (...said) {
            drawn.push(said[0]);
            draw.apply(this, said);
        };
    """)
    page = tab.open(f"{url}#/run/0/logging?tab=charts")

    tab.until(lambda: "0" in page.evaluate("drawn"), lambda: f"the chart, of {page.evaluate('drawn')}")

    assert {"-0.2", "0.2", "0.4"}.isdisjoint(page.evaluate("drawn"))
    assert "0" in page.evaluate("drawn")


def test_a_metric_is_aligned_to_the_right_also_where_the_first_rows_have_none(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/runs?columns=metrics.acc.last&order=created+desc&q=name+contains+%27run%27")

    head = page.get_by_role("region", name="Runs", exact=True).get_by_role("columnheader", name="acc")
    playwright.expect(head).to_have_css("text-align", "right")
