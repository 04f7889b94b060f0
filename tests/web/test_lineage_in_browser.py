"""The lineage of a run in a real browser: data, runs and models, without the files that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from barograph.experiments.handle import catalog_at
from barograph.model.items import ArtifactLink, Entry, Verb
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from chromium import silent_tab as silent_tab
from web_client import recorded

pytestmark = needs_chromium
FOLDER = "/srv/jobs/work/a-job-with-a-long-name/0-0/data/train"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("lineage") / "runs"
    for name in ("prepared", "trained", "evaluated"):
        recorded(root / name, [2.0, 1.0])
    catalog = catalog_at(str(root))
    catalog.feed()
    prepared, trained, evaluated = (catalog.item(name).uid for name in ("prepared", "trained", "evaluated"))

    def entry(run: str, verb: Verb, name: str) -> Entry:
        file = name.rpartition("/")[2]
        return Entry(run, verb, asdict(ArtifactLink(name, f"file:///{file}", digest=f"sha256:{file}")))

    data = f"{FOLDER}/digits.npz"
    catalog.tell([entry(prepared, Verb.OUTPUT, data), entry(trained, Verb.INPUT, data),
                  *(entry(trained, Verb.OUTPUT, f"figure {number}.png") for number in range(9)),
                  entry(trained, Verb.OUTPUT, "model.pt"), entry(evaluated, Verb.INPUT, "model.pt")])
    with served(application([str(root)], hosts=[])) as url:
        yield url


def test_files_that_lead_nowhere_are_one_node_and_the_list_has_all(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/run/0/trained?tab=lineage")
    graph = page.get_by_role("group", name="Lineage graph")

    for name in ("prepared", "digits.npz", "trained", "model.pt", "evaluated", "5 more files"):
        playwright.expect(graph.locator("text", has_text=name)).to_be_visible()
    playwright.expect(graph.locator("text", has_text="figure")).to_have_count(4)
    page.get_by_text("As a list").click()
    playwright.expect(page.get_by_role("listitem").filter(has_text="was made by trained")).to_have_count(10)

    graph.get_by_role("link").filter(has_text="5 more files").click()
    playwright.expect(page.get_by_role("tab", name="Files")).to_have_attribute("aria-selected", "true")


def test_the_data_leads_to_the_runs_after_it(tab: Tab, url: str) -> None:
    page = tab.settled(f"{url}#/run/0/prepared?tab=lineage")

    page.get_by_role("group", name="Lineage graph").get_by_role("link").filter(has_text="evaluated").click()
    playwright.expect(page.get_by_role("heading", name="evaluated")).to_be_visible()
