"""The page is there before the rest of the application."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from barograph.errors import SettingsError
from barograph.model.clock import ManualClock
from barograph.web import server
from barograph.web.app import Application, application
from barograph.web.loaded_later import LoadedLater
from barograph.web.page_files import page_routes
from barograph.web.starting import Starting
from barograph.web.tokens import Token
from web_client import Client

_LONGEST_SECS = 120.0


def _starting(load: Any, **options: Any) -> Starting:
    return Starting(load, on_failure=options.pop("on_failure", lambda: None), hosts=["127.0.0.1"], **options)


def test_the_page_is_answered_while_the_application_is_loaded_and_questions_wait_for_it(root: Path) -> None:
    may_go_on = threading.Event()

    def load() -> Any:
        assert may_go_on.wait(_LONGEST_SECS)
        return application([str(root)], hosts=["127.0.0.1"])

    client = Client(_starting(load))
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(client.get, "/api/roots")
        try:
            paths = [route.path for route in page_routes()]
            assert [client.get(path).status for path in paths] == [Client(application([], hosts=[])).get(path).status
                                                                   for path in paths]
            assert client.get("/", {"host": "evil.example"}).status == 403
            assert not asked.done()
        finally:
            may_go_on.set()
        assert asked.result(_LONGEST_SECS).json == {"roots": [str(root)]}
    assert client.get("/api/now").status == 200


def test_the_token_of_a_link_becomes_a_cookie_before_the_application_is_loaded() -> None:
    starting = _starting(lambda: pytest.fail("not needed"), tokens=[Token("s" * 32)])

    answer = Client(starting).get(f"/?token={'s' * 32}")

    assert answer.status == 303
    assert "s" * 32 in answer.headers["set-cookie"]


def test_an_application_that_cannot_be_loaded_ends_the_server_with_its_error() -> None:
    failed = threading.Event()

    def load() -> Any:
        raise ModuleNotFoundError("no prometheus_client")

    starting = _starting(load, on_failure=failed.set)
    starting.check()
    with pytest.raises(ModuleNotFoundError):
        Client(starting).get("/api/roots")

    assert failed.wait(_LONGEST_SECS)
    with pytest.raises(ModuleNotFoundError):
        starting.check()


def test_memory_is_released_once_after_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[None] = []
    pool = SimpleNamespace(release_unused=lambda: released.append(None))
    monkeypatch.setattr("pyarrow.default_memory_pool", lambda: pool)
    starting = _starting(lambda: application([], hosts=["127.0.0.1"]))
    client = Client(starting)
    starting.tidy()
    assert not released

    client.get("/api/roots")
    starting.tidy()
    starting.tidy()

    assert len(released) == 1


def test_a_second_server_takes_the_next_port_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "DEFAULT_PORT", port)
        with server._socket("127.0.0.1", None) as listening:
            assert port < listening.getsockname()[1] < port + 20

        with pytest.raises(SettingsError, match=f"{port}: Address already in use. Choose another: --port 0"):
            server._socket("127.0.0.1", port)


def test_two_studios_of_one_place_show_the_edits_of_each_other(root: Path) -> None:
    clock = ManualClock()
    first, second = (Client(application([str(root)], hosts=["127.0.0.1"], clock=clock)) for _ in range(2))
    key = "0/first"
    assert second.get(f"/api/marks?run={key}").json["starred"] is False

    edited = first.post("/api/edit", {"run": key, "changes": {"starred": True}})
    clock.advance(60.0)

    assert edited.status == 200
    assert second.get(f"/api/marks?run={key}").json["starred"] is True
    assert {row["key"] for row in second.get("/api/search?q=starred").json["rows"]} == {key}


def test_what_reads_runs_is_imported_small_for_the_first_request_that_needs_it(root: Path) -> None:
    code = (
        "import sys\n"
        "from barograph.runs.reading.freed_memory import keep_arrow_small\n"
        "from barograph.web.app import application\n"
        "from barograph.web.in_process import get_inside\n"
        f"app = application([{str(root)!r}], hosts=[], before_records=keep_arrow_small)\n"
        "def loaded(): return sorted({'pyarrow', 'barograph.web.charting', 'pandas'} & set(sys.modules))\n"
        "print(get_inside(app, 'api/roots').status, app.is_complete, loaded())\n"
        "print(get_inside(app, sys.argv[1]).status, app.is_complete, loaded())\n"
        "import pyarrow\n"
        "print(pyarrow.default_memory_pool().backend_name == 'system')\n")
    arrow, all_of_it = "200 False ['pyarrow']", "200 True ['barograph.web.charting', 'pyarrow']"

    # Indexed by the second, the runs are only listed by the third; then Arrow keeps its own pool here.
    for url, then, pool in (("api/run?run=0/first", all_of_it, "True"), ("api/search", arrow, "True"),
                            ("api/search", "200 False []", "False"),
                            ("api/search?by=params.a&metric=loss&group=1", "404 False ['pyarrow']", "True")):
        found = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
        assert found.stdout.split("\n") == ["200 False []", then, pool, ""], url


def test_what_cannot_be_loaded_fails_its_request_and_the_next_one_tries_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = _starting(lambda: application([str(root)], hosts=["127.0.0.1"]))
    client = Client(starting)
    monkeypatch.setitem(sys.modules, "barograph.web.other_routes", None)  # as if packages were being replaced

    failed = client.get("/api/run?run=0/first")
    starting.tidy()
    starting.check()

    assert (failed.status, failed.json["type"]) == (500, "BarographError")
    assert failed.json["error"] == (
        "The studio could not answer: ModuleNotFoundError (barograph.web.other_routes). Its output has the details. If "
        "packages were installed or upgraded while it was running, restart it.")
    assert [type(error) for error in client.logged] == [ModuleNotFoundError]
    assert client.get("/api/search").status == 200
    monkeypatch.undo()
    assert client.get("/api/run?run=0/first").status == 200


def test_a_web_socket_to_what_cannot_be_loaded_is_closed() -> None:
    def make() -> list[Route]:
        raise ImportError("replaced")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(LoadedLater(make)({"type": "websocket", "path": "/api/changes"}, receive, send))

    assert sent == [{"type": "websocket.close", "code": 1011}]


def test_requests_that_come_while_routes_are_loaded_are_answered_by_the_same() -> None:
    may_go_on, made = threading.Event(), list[None]()

    async def there(request: Request) -> Response:
        return PlainTextResponse("there")

    def make() -> list[Route]:
        made.append(None)
        assert may_go_on.wait(_LONGEST_SECS)
        return [Route("/api/later", there)]

    later = LoadedLater(make)
    client = Client(Application(later, routes=[Route("/api/now", there)]))
    with ThreadPoolExecutor(2) as others:
        asked = [others.submit(client.get, "/api/later") for _ in range(2)]
        try:
            assert client.get("/api/now").status == 200
            assert "/api/later" not in later
        finally:
            may_go_on.set()
        assert [one.result(_LONGEST_SECS).body for one in asked] == [b"there", b"there"]
    assert (len(made), "/api/later" in later, client.get("/api/never").status) == (1, True, 404)


def test_the_command_imports_no_array_library_before_the_page_is_served() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import sys, barograph.cli.inspect.studio_page, barograph.web.starting; "
                               "print(sorted({'numpy', 'pyarrow', 'sqlalchemy'} & set(sys.modules)))"],
        capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
