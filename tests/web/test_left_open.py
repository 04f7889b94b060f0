"""A tab that stays open for a day beside a training: it keeps up, and its memory does not grow."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from barograph.experiments.handle import catalog_at
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from barograph.web.app import application
from chromium import Tab, needs_chromium, playwright, served
from chromium import browser as browser
from diary import Diary
from proxies import proxied
from web_client import recorded

_ANNOUNCEMENTS = 60
_A_DAY_MS = 24 * 3600 * 1000
_MOST_GROWTH = 10_000
"""Bytes of an announcement. An answer that is kept for each takes 19,000."""


@needs_chromium
def test_memory_does_not_grow_with_announcements_and_new_steps_are_shown(
    tmp_path: Path, browser: Any
) -> None:
    diary = Diary("live", store_from_url(str(tmp_path / "runs" / "live")))
    for number in range(400):
        diary.step(number, {"loss:total": 3.0 + number / 7, "scalar:acc": number / 9})
    diary.publish()
    with served(application([str(tmp_path / "runs")], hosts=["127.0.0.1"])) as url:
        tab = Tab(browser)
        asked: list[str] = []
        sockets: list[Any] = []
        tab.page.route_web_socket("**/api/changes", lambda socket: sockets.append(socket))
        tab.page.on("requestfinished", lambda request: asked.append(request.url) if "/api/lines" in request.url else 0)
        tab.page.clock.install()
        page = tab.open(f"{url}#/run/0/live?tab=charts")
        playwright.expect(page.get_by_role("figure", name="loss", exact=True).locator("canvas")).to_be_visible()
        tab.until(lambda: bool(sockets))

        def announce(times: int) -> None:
            for _ in range(times):
                before = len(asked)
                page.clock.fast_forward(_A_DAY_MS // _ANNOUNCEMENTS // 2)
                sockets[-1].send('{"0/live": "changed"}')
                page.clock.run_for(1000)
                tab.until(lambda: len(asked) > before, "the question after an announcement")  # noqa: B023

        heaps = []
        for _ in range(3):
            announce(_ANNOUNCEMENTS // 3)
            heaps.append(_heap(tab))
        # What is kept of each announcement grows every time; what the browser compiles or caches once does not.
        least = min(after - before for before, after in itertools.pairwise(heaps))
        assert least / (_ANNOUNCEMENTS // 3) < _MOST_GROWTH

        diary.step(400, {"loss:total": 3.5, "scalar:acc": 0.5})
        diary.publish()

        def is_shown() -> bool:
            announce(1)  # again, because the server may have read the run a moment before
            return page.get_by_text("401 steps", exact=True).count() > 0

        tab.until(is_shown, "the new step")
        assert tab.complaints == []
        tab.context.close()


@needs_chromium
def test_charts_and_times_of_the_list_follow_what_is_recorded_meanwhile(tmp_path: Path, browser: Any) -> None:
    def record(name: str, lr: float) -> None:
        recorded(tmp_path / "runs" / name, [3.0, lr])
        catalog.feed()
        catalog.tell([Entry(run.uid, Verb.PARAMETERS, {"lr": lr}) for run in catalog.find(f"name = '{name}'")])

    catalog = catalog_at(str(tmp_path / "runs"))
    record("first", 0.1)
    record("second", 0.2)
    with served(application([str(tmp_path / "runs")], hosts=[])) as url:
        tab = Tab(browser)
        tab.page.clock.install()
        page = tab.settled(f"{url}#/runs?chart=scatter")
        chart = page.get_by_role("img", name="by lr of")
        playwright.expect(chart).to_have_accessible_name(re.compile("of 2 runs"))
        playwright.expect(page.get_by_text("just now")).to_have_count(2)

        record("third", 0.3)

        def is_shown(what: Any) -> bool:
            page.clock.fast_forward(60_000)
            return bool(what.count())

        tab.until(lambda: is_shown(page.get_by_role("img", name="of 3 runs")), "the new run in the chart")
        tab.until(lambda: is_shown(page.get_by_text("min ago")), "the time that has passed")
        assert tab.complaints == []
        tab.context.close()


@needs_chromium
def test_where_a_proxy_forbids_sockets_the_page_keeps_up_by_asking(tmp_path: Path, browser: Any) -> None:
    diary = Diary("live", store_from_url(str(tmp_path / "runs" / "live")))
    diary.step(0, {"loss:total": 3.0})
    diary.publish()
    with (served(application([str(tmp_path / "runs")], hosts=[])) as studio,
          proxied(int(studio.rstrip("/").rpartition(":")[2])) as (url, asked, refused)):
        tab = Tab(browser)
        page = tab.open(f"{url}#/run/0/live")
        playwright.expect(page.get_by_text("1 step", exact=True)).to_be_visible()
        tab.until(lambda: len(refused) >= 2, "the second socket that is refused")
        for number in range(1, 4):
            diary.step(number, {"loss:total": 3.0 - number})
            diary.publish()
            playwright.expect(page.get_by_text(f"{number + 1} steps", exact=True)).to_be_visible()

        before = len([path for path in asked if "/api/run?" in path])
        tab.until(lambda: len([path for path in asked if "/api/run?" in path]) >= before + 3, "three more questions")
        assert len(refused) == 2, "no more sockets are tried"
        assert len([text for text in tab.complaints if "WebSocket" not in text]) == 0, tab.complaints
        tab.context.close()


def _heap(tab: Tab) -> float:
    session = tab.context.new_cdp_session(tab.page)
    session.send("Performance.enable")
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return float(next(item["value"] for item in metrics if item["name"] == "JSHeapUsedSize"))
