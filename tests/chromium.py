"""Chromium, and a studio that it looks at."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from barograph.web.page_digest import SOURCES

# First Chromium without its windows: a tab takes it a quarter of the processor time.
_NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
playwright = pytest.importorskip("playwright.sync_api")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
AXE = SOURCES / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = "<img src=x onerror='window.hacked=1'>"
LONGEST_SECS = 300.0
playwright.expect.set_options(timeout=LONGEST_SECS * 1000)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application in a thread; yield its URL."""
    listening = socket.create_server(("127.0.0.1", 0))  # what asks before it answers waits
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"])
        yield browser
        browser.close()


class Tab:
    """One tab: what it asked for, what it complained about."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONGEST_SECS * 1000)
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def open(self, address: str) -> Any:
        self.page.goto(address)
        return self.page

    def settled(self, address: str) -> Any:
        """Open an address and wait until everything that it asks for is there."""
        self.page.goto("about:blank")
        self.page.goto(address)
        playwright.expect(self.page.locator("main[aria-busy=false]")).to_be_visible()
        return self.page

    def until(self, happened: Callable[[], bool], what: str | Callable[[], str] = "it") -> None:
        """Let the page go on until something has happened; `what` says what was waited for."""
        deadline = time.monotonic() + LONGEST_SECS
        while not happened():
            assert time.monotonic() < deadline, f"{what if isinstance(what, str) else what()} not in time"
            self.page.wait_for_timeout(20)


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def violations(page: Any, *rules: str) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    # Only these: what passes is nearly the whole page.
    found = page.evaluate("(options) => axe.run(document, options).then((found) => found.violations)", options)
    return [f"{item['id']}: {node['target']} {node['html'][:120]}" for item in found for node in item["nodes"]]


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    tab = Tab(browser)
    yield tab
    tab.context.close()


@pytest.fixture(name="tab")
def silent_tab(browser: Any) -> Iterator[Tab]:
    """A tab that must not complain."""
    tab = Tab(browser)
    yield tab
    tab.context.close()
    assert tab.complaints == []
