"""Groups of runs in a real browser: the problem that the runs of a group have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barograph.experiments.handle import catalog_at
from barograph.model.finding import Severity
from barograph.model.items import Entry, Verb
from barograph.runs.state.findings import write_event
from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from chromium import tab as tab
from diary import finding_of
from web_client import recorded

pytestmark = needs_chromium
MESSAGES = {
    "same": ["Units of relu2 are dead."] * 3,
    "mostly": ["Units of relu2 are dead.", "Units of relu2 are dead.", "Units of fc are dead.", ""],
    "apart": ["Units of conv1 are dead.", "Units of conv2 are dead.", ""],
    "one": ["Units of relu2 are dead.", ""],
    "healthy": [""],
}
"""Problem of each run by group; "" for none."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("grouped") / "runs"
    for group, messages in MESSAGES.items():
        for number, message in enumerate(messages):
            recorded(root / f"{group}-{number}", [3.0, 2.0 + number])
            if message:
                write_event(store_from_url(str(root / f"{group}-{number}")), finding_of(
                    Severity.COSTLY, code="A101", rule="confusion" if group == "apart" else "dead-relu",
                    message=message, step=number if group == "mostly" else 5))
    catalog = catalog_at(str(root))
    catalog.feed()
    catalog.tell([Entry(run.uid, Verb.PARAMETERS, {"group": run.name.partition("-")[0]})
                  for run in catalog.find("kind = 'run'")])
    with served(application([str(root)], hosts=[])) as url:
        yield url


@pytest.mark.parametrize(("group", "says"), [
    ("same", "Units of relu2 are dead, since step 5 (all 3 runs)"),
    ("mostly", "Units of relu2 are dead (2 of 4 runs)"),
    ("apart", "confused classes (2 of 3 runs)"),
    ("one", "Units of relu2 are dead, since step 5 (1 of 2 runs)"),
    ("healthy", ""),
])
def test_a_group_names_the_problem_that_its_runs_have_in_common(tab: Tab, url: str, group: str, says: str) -> None:
    page = tab.open(f"{url}#/runs?chart=curves&metric=metrics.loss.last&by=params.group")

    row = page.get_by_role("region", name="Groups").get_by_role("row").filter(has_text=f"group = {group}")
    playwright.expect(row.get_by_role("cell").last).to_have_text(f"▲costly:{says}" if says else "")


def test_no_difference_has_no_sign(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/runs?chart=curves&metric=metrics.loss.last&by=params.group")

    playwright.expect(page.get_by_role("region", name="Groups")).to_contain_text("may be noise 0 [")


def test_a_search_that_finds_no_more_than_some_of_them_counts_only_these(tab: Tab, url: str) -> None:
    page = tab.open(f"{url}#/runs?chart=curves&metric=metrics.loss.last&by=params.group&q=name+%3D+%27same-0%27")

    playwright.expect(page.get_by_role("region", name="Groups").get_by_role("cell").last).to_contain_text(
        "Units of relu2 are dead, since step 5")
    playwright.expect(page.get_by_text("of 3 runs")).to_have_count(0)
