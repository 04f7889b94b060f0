"""One page of a real Chromium: what it loads, how long until something is there, its longest task, its heap."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PATIENCE_MS = 180_000
_LOOKING = Path(__file__).with_name("looking.js")


@dataclass
class Page:
    """A page that is measured.

    Attributes:
        page: Page of Playwright.
        wire_bytes: Bytes that came over the network, headers included.
        largest_bytes: Longest answer with data, decoded.
        requests: Number of requests.
        hosts: Whom it asked.
        complaints: What it wrote to the console, and errors.
        cancelled: Requests that it gave up.
    """

    page: Any
    wire_bytes: float = 0.0
    largest_bytes: float = 0.0
    requests: int = 0
    hosts: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    cancelled: int = 0
    _sizes: dict[str, float] = field(default_factory=dict)
    _data: set[str] = field(default_factory=set)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.page.goto(url, wait_until="commit")

    def secs_until(self, test: str, longest_secs: float = 60.0) -> float:
        """Return the seconds from the navigation until an expression is true, looked at in every frame."""
        return float(self.page.evaluate(f"bench.until(() => {test}, {1000 * longest_secs})")) / 1000

    def secs_of(self, action: str, test: str) -> float:
        """Return the seconds from an action until an expression is true."""
        timed = f"const begin = performance.now(); {action}; return await bench.until(() => {test}) - begin"
        return float(self.page.evaluate(f"(async () => {{ {timed} }})()")) / 1000

    def longest_task_secs(self) -> float:
        """Return the longest task that blocked the page for 50 ms or more; 0 if none did."""
        return float(self.page.evaluate("Math.max(0, ...bench.tasks)")) / 1000

    def heap_bytes(self) -> float:
        """Return the heap of the page after a garbage collection."""
        self._session.send("HeapProfiler.collectGarbage")
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(item["value"] for item in metrics if item["name"] == "JSHeapUsedSize"))

    def watch(self) -> None:
        """Begin to count."""
        page = self.page
        page.set_default_timeout(_PATIENCE_MS)
        self._session = page.context.new_cdp_session(page)
        for domain in ("Network", "Performance", "HeapProfiler"):
            self._session.send(f"{domain}.enable")
        self._session.on("Network.loadingFinished", self._finished)
        self._session.on("Network.responseReceived", self._answered)
        self._session.on("Network.dataReceived", self._received)
        page.on("request", self._asked)
        page.on("requestfailed", lambda request: setattr(self, "cancelled", self.cancelled + 1))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.add_init_script(path=_LOOKING)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.requests += 1
            self.hosts.add(request.url.split("/")[2].split(":")[0])

    def _finished(self, event: Any) -> None:
        self.wire_bytes += event["encodedDataLength"]

    def _answered(self, event: Any) -> None:
        if event["response"]["mimeType"] in ("application/json", "application/octet-stream"):
            self._data.add(event["requestId"])

    def _received(self, event: Any) -> None:
        if event["requestId"] not in self._data:
            return
        size = self._sizes[event["requestId"]] = self._sizes.get(event["requestId"], 0.0) + event["dataLength"]
        self.largest_bytes = max(self.largest_bytes, size)


class Chromium:
    """A browser; each page has a profile of its own, without a cache."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Yield a new page."""
        context = self._browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
        page = Page(context.new_page())
        page.watch()
        try:
            yield page
        finally:
            context.close()

    def secs_of_tabs(self, url: str, tabs: int) -> float:
        """Return the seconds until that many tabs, opened at once, have all loaded."""
        context = self._browser.new_context()
        pages = [context.new_page() for _ in range(tabs)]
        before = time.monotonic()
        for page in pages:
            page.goto(url, wait_until="commit")
        for page in pages:
            page.wait_for_load_state("load")
        secs = time.monotonic() - before
        context.close()
        return secs


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Yield a Chromium of this machine.

    Raises:
        FileNotFoundError: There is none.
    """
    from playwright.sync_api import sync_playwright

    names = ("chromium", "google-chrome", "chromium-browser", "chromium-headless-shell")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise FileNotFoundError("no Chromium on this machine")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=[
            "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"])
        yield Chromium(browser)
        browser.close()
