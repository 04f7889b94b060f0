"""The web page for several people: behind a proxy, with tokens, in two tabs at once."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.artifacts import artifact_from_bytes
from barograph.experiments.handle import catalog_at
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from chromium import CHROMIUM, Tab
from proxies import proxied
from web_client import recorded

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

HOSTILE = "<img src=x onerror='window.hacked=1'>\u202eevil ../../etc " + "x" * 900
PREFIX = "/a/b"
READ, WRITE = "secret-of-readers", "secret-of-writers"
_END_SECS = 600.0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("teams") / "runs"
    for name in ("first", "second"):
        recorded(root / name, [3.0, 2.0, 1.0])
    catalog = catalog_at(str(root))
    catalog.feed()
    first, store = catalog.item("first").uid, store_from_url(str(root))
    for name, data in {"notes.txt": b"epoch 1: ok", "page.svg": b"<svg onload='parent.hacked=1'/>"}.items():
        catalog.tell([Entry(first, Verb.OUTPUT, asdict(artifact_from_bytes(store, data, name, "")))])
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[int]:
    """A studio with tokens; the number is its port."""
    import uvicorn

    from barograph.web.app import application
    from barograph.web.tokens import Role, Token

    app = application([str(root)], hosts=[], tokens=[Token(WRITE, Role.WRITER, "ann"), Token(READ, Role.READER, "bob")])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    ready = threading.Event()
    started = server.startup

    async def startup(sockets: Any = None) -> None:
        await started(sockets)
        ready.set()

    server.startup = startup
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    assert ready.wait(_END_SECS)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(_END_SECS)


@pytest.fixture(scope="module")
def proxy(server: int) -> Iterator[tuple[str, list[str]]]:
    """Address of a reverse proxy with the studio below `PREFIX`, and every path that it was asked for."""
    with proxied(server, PREFIX) as (url, asked, _):
        yield url, asked


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright.expect.set_options(timeout=_END_SECS * 1000)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def unexpected(tab: Tab) -> list[str]:
    """What the page complained of, but for answers that it shows: no token, a conflict."""
    # The proxy lets no sockets through: the page then asks again and again, as it does before anybody has logged in.
    return [text for text in tab.complaints if not re.search(r"status of (401|409)|^WebSocket connection", text)]


def test_a_reader_types_the_token_sees_what_the_link_shows_and_edits_nothing(
    browser: Any, proxy: tuple[str, list[str]]
) -> None:
    url, asked = proxy
    tab = Tab(browser)
    page = tab.open(f"{url}#/run/0/first?tab=files&file=output%2Fnotes.txt")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("Wrong token")
    page.get_by_label("Token").fill(READ)
    page.get_by_role("button", name="Open").click()

    playwright.expect(page.get_by_text("epoch 1: ok")).to_be_visible()
    page.get_by_role("button", name="page.svg").click()
    playwright.expect(page.get_by_text("<svg onload=")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download page.svg").click()
    assert download.value.suggested_filename == "page.svg"
    assert page.get_by_role("button", name="Edit").count() == 0
    for address, text in {"#/now": "first", "#/runs": "first", "#/jobs": "Jobs", "#/deleted": "Nothing is deleted",
                          "#/run/0/first?tab=lineage": "notes.txt was made by first",
                          "#/run/0/first?tab=charts": "loss",
                          "#/compare?run=0/first&run=0/second": "Bit-identical"}.items():
        page.goto(f"{url}{address}")
        if "lineage" in address:
            page.get_by_text("As a list").click()
        playwright.expect(page.get_by_text(text).first).to_be_visible()

    (cookie,) = tab.context.cookies()
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (PREFIX, True, "Strict")
    assert [path for path in asked if not path.startswith(f"{PREFIX}/") and path != "/favicon.ico"] == []
    assert page.evaluate("window.hacked") is None
    assert unexpected(tab) == []
    tab.context.close()


def test_a_writer_edits_deletes_and_undoes_while_another_tab_is_told(
    browser: Any, proxy: tuple[str, list[str]], root: Path
) -> None:
    url, _ = proxy
    tab = Tab(browser)
    page = tab.open(f"{url}?token={WRITE}")
    playwright.expect(page.get_by_role("link", name="Runs", exact=True)).to_be_visible()
    assert "token" not in page.url
    page.goto(f"{url}#/run/0/second")
    late = tab.context.new_page()
    late.goto(f"{url}#/run/0/second")
    playwright.expect(late.get_by_role("button", name="Edit")).to_be_visible()
    # It does not ask again, as a tab whose machine slept.
    late.route("**/api/marks*", lambda route: route.abort())

    held: list[Any] = []
    page.route("**/api/edit", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/api/edit"):
        page.get_by_role("button", name="Star").click()
    page.get_by_role("button", name="+ tag").click()
    page.get_by_label("New tag, name=text").fill("team=vision")
    page.keyboard.press("Enter")
    held[0].continue_()  # the second edit waits for the first, whose version it needs
    playwright.expect(page.get_by_text("team=vision")).to_be_visible()
    page.get_by_text("Add a note").first.click()
    page.get_by_label("New note").fill(HOSTILE)
    page.get_by_role("button", name="Add the note").click()
    playwright.expect(page.get_by_role("article")).to_contain_text("ann")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280

    late.get_by_role("button", name="Edit").click()
    late.get_by_label("Name", exact=True).fill("mine")
    late.keyboard.press("Enter")
    playwright.expect(late.get_by_role("alert")).to_contain_text("Somebody else edited")
    late.close()

    page.get_by_role("button", name="Delete").click()
    playwright.expect(page.locator(".notices")).to_contain_text("Its files stay")
    assert catalog_at(str(root)).item_by_uid(catalog_at(str(root)).deleted(HOSTILE).uid) is not None
    page.get_by_role("button", name="Undo").click()
    playwright.expect(page.locator(".notices")).to_contain_text("Restored")

    item = catalog_at(str(root)).item(HOSTILE)
    assert (item.facts["starred"], dict(item.tags)) == (True, {"team": "vision"})
    assert [(note.by, note.text) for note in item.notes] == [("ann", HOSTILE)]
    assert page.evaluate("window.hacked") is None
    assert unexpected(tab) == []
    tab.context.close()
