"""Axes of the charts of runs, while runs arrive, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.experiments.handle import catalog_at
from barograph.model.clock import ManualClock
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from chromium import tab as tab
from experiments_entries import NOW_UNIX, component

pytestmark = needs_chromium


def tell(root: Path, uid: str, lr: float, **metrics: float) -> None:
    catalog_at(str(root)).tell(component(uid, kind="run", time_unix=NOW_UNIX, parameters={"lr": lr}, metrics=metrics))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(unix=NOW_UNIX)


@pytest.fixture
def url(tmp_path: Path, clock: ManualClock) -> Iterator[str]:
    tell(tmp_path, "first", 0.1, acc=0.5, zloss=3.0)
    tell(tmp_path, "second", 0.2, acc=0.6, zloss=2.0)
    with served(application([str(tmp_path)], hosts=[], clock=clock)) as url:
        yield url


@pytest.mark.parametrize(("chart", "choice"), [("scatter", "y axis"), ("parallel", "Color by"), ("curves", "Metric")])
def test_a_default_axis_stays_when_a_run_without_it_arrives(
    tab: Tab, url: str, tmp_path: Path, clock: ManualClock, chart: str, choice: str
) -> None:
    tab.page.clock.install()
    page = tab.open(f"{url}#/runs?chart={chart}")
    axis = page.locator("section.chart label").filter(has=page.get_by_text(choice, exact=True)).locator("select")
    playwright.expect(axis).to_have_value("metrics.acc.last")

    tell(tmp_path, "third", 0.3, zloss=1.0, new=1.0)
    clock.advance(60.0)
    arrived = axis.locator("option", has_text="new")

    def is_there() -> bool:
        page.clock.run_for(5000)
        return arrived.count() > 0
    tab.until(is_there, "the third run")

    assert axis.input_value() == "metrics.acc.last"
