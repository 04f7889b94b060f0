"""Tracking servers that lie, refuse, hang and go round: what is imported of them, and what is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from barograph.cli.share.trackers_import import _keeper
from barograph.errors import ImportFailed, SettingsError
from barograph.ingest.mlflow.server import ServerSource
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.runs.reading.metrics import metrics_of
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.wire.web import Web, WebFailed, web_from_environment

RUN = {
    "info": {"run_id": "0a1b", "run_name": "wide", "experiment_id": "1", "status": "FINISHED", "user_id": "ann",
             "start_time": 1_700_000_000_000, "end_time": 1_700_000_005_000,
             "artifact_uri": "mlflow-artifacts:/1/0a1b"},
    "data": {"metrics": [{"key": "loss", "value": 0.5, "timestamp": 1_700_000_001_000, "step": 1}]},
}
ANSWERS: dict[str, Any] = {
    "experiments/search": {"experiments": [{"experiment_id": "1", "name": "digits"}]},
    "runs/search": {"runs": [RUN]},
    "metrics/get-history": {"metrics": [
        {"key": "loss", "value": 1.5, "timestamp": 1_700_000_000_500, "step": 0},
        {"key": "loss", "value": "NaN", "timestamp": "1700000001000", "step": "1"},
    ]},
    "model-versions/search": {},
    "artifacts/list": {"files": [{"path": "a.txt", "is_dir": False, "file_size": 5}]},
}


class Server:
    """A server whose answers are set by the test: JSON data, or what writes to the handler."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.files: dict[str, bytes] = {"a.txt": b"hello"}
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            told.asked.append((parts.path, query, dict(self.headers.items())))
            if parts.path == "/get-artifact":
                self._send(told.files[query["path"][0]])
                return
            answer = told.answers.get(parts.path.removeprefix("/api/2.0/mlflow/"), {})
            if callable(answer):
                answer(self)
            else:
                self._send(json.dumps(answer).encode())

        def _send(self, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    told = Server(f"http://127.0.0.1:{listening.server_address[1]}")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield told
    listening.shutdown()
    listening.server_close()
    thread.join()


def imported(server: Server, root: Path, *, timeout_secs: float = 20.0) -> Imported:
    store = store_from_url(root)
    return import_runs(ServerSource(Web(server.url, timeout_secs=timeout_secs)), store,
                       lambda folder: store_from_url(root / folder), _keeper(store))


def with_status(code: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_what_a_server_tells_becomes_a_run(server: Server, tmp_path: Path) -> None:
    (run,) = imported(server, tmp_path).runs
    assert (run.points, run.copied) == (2, 1)
    summary = metrics_of(RunReader(store_from_url(run.run)))["loss"]
    assert (summary.count, summary.max, summary.last_step) == (2, 1.5, 1)


def test_all_pages_are_asked_for(server: Server, tmp_path: Path) -> None:
    second = {"info": {**RUN["info"], "run_id": "2c3d", "run_name": "narrow"}, "data": {}}
    pages = iter([{"runs": [RUN], "next_page_token": "more"}, {"runs": [second]}])

    def page(handler: Any) -> None:
        handler._send(json.dumps(next(pages)).encode())

    server.answers["runs/search"] = page
    assert [run.name for run in imported(server, tmp_path).runs] == ["wide", "narrow"]


def test_a_server_that_goes_round_in_its_pages_is_left(server: Server, tmp_path: Path) -> None:
    server.answers["runs/search"] = {"runs": [], "next_page_token": "again"}
    with pytest.raises(ImportFailed, match="repeats its pages"):
        imported(server, tmp_path)


def test_no_redirect_is_followed_to_a_file_or_anywhere(server: Server, tmp_path: Path) -> None:
    for target in ("file:///etc/passwd", f"{server.url}/elsewhere"):
        server.answers["experiments/search"] = with_status(302, Location=target)
        with pytest.raises(ImportFailed, match=r"responded 302 Found\. Redirects are not followed"):
            imported(server, tmp_path)
    assert not [path for path, _, _ in server.asked if path == "/elsewhere"]


@pytest.mark.parametrize(("body", "said"), [
    (b"<html>", "is not JSON: b'<html>'"), (b"[1]", "not a JSON object"), (b"[" * 100_000, "is not JSON"),
    (b'{"experiments": 3}', "invalid response"),
])
def test_an_answer_that_is_none_is_told(body: bytes, said: str, server: Server, tmp_path: Path) -> None:
    server.answers["experiments/search"] = with_status(200, body)
    with pytest.raises(ImportFailed, match=said):
        imported(server, tmp_path)


def test_who_may_not_ask_is_told_how_to_say_who_they_are(server: Server, tmp_path: Path) -> None:
    server.answers["experiments/search"] = with_status(401, b'{"error_code": "X", "message": "You are nobody."}')
    with pytest.raises(ImportFailed, match=r"401 Unauthorized: You are nobody\. Set MLFLOW_TRACKING_T"):
        imported(server, tmp_path)


def test_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"cannot be reached: Connection refused \(http://127.0.0.1:9\)"):
        ServerSource(Web("http://127.0.0.1:9"))


@pytest.mark.timeout(600)
def test_a_server_that_sends_a_byte_now_and_then_is_cut_off(server: Server, tmp_path: Path) -> None:
    over = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not over.wait(0.05):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            return  # cut off, as it should be

    server.answers["experiments/search"] = trickle
    try:
        with pytest.raises(ImportFailed, match=r"did not respond within 0\.5 s"):
            imported(server, tmp_path, timeout_secs=0.5)
    finally:
        over.set()


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "a//b", ""])
def test_an_artifact_that_is_in_no_folder_of_the_run_is_left_out(path: str, server: Server, tmp_path: Path) -> None:
    server.answers["artifacts/list"] = {"files": [{"path": path, "file_size": 5}]}
    found = imported(server, tmp_path)
    assert found.runs[0].copied == 0
    assert any("outside the run's directory" in line for line in found.damage)
    assert not [path for path, _, _ in server.asked if path == "/get-artifact"]


def test_folders_of_artifacts_without_end_are_left(server: Server, tmp_path: Path) -> None:
    def deeper(handler: Any) -> None:
        path = parse_qs(urlsplit(handler.path).query).get("path", ["d"])[0]
        handler._send(json.dumps({"files": [{"path": f"{path}/d" if path != "d" else "d/d" if "path" in handler.path
                                             else "d", "is_dir": True}]}).encode())

    server.answers["artifacts/list"] = deeper
    found = imported(server, tmp_path)
    assert len(found.runs) == 1
    assert any("outside the run's directory" in line for line in found.damage)


@pytest.mark.parametrize("sent", [b"hello and more", b"hell"])
def test_an_artifact_of_another_size_than_told_is_not_kept(sent: bytes, server: Server, tmp_path: Path) -> None:
    server.files["a.txt"] = sent
    found = imported(server, tmp_path)
    assert (found.runs[0].copied, found.runs[0].referenced) == (0, 1)
    assert any("was not copied" in line for line in found.damage)


def test_an_artifact_of_an_absurd_size_stays_where_it_is(server: Server, tmp_path: Path) -> None:
    server.answers["artifacts/list"] = {"files": [{"path": "a.txt", "file_size": 10**18}]}
    assert imported(server, tmp_path).runs[0].referenced == 1
    assert not [path for path, _, _ in server.asked if path == "/get-artifact"]


@pytest.mark.parametrize("point", [{"value": "x", "timestamp": 1, "step": 1}, {"value": 1.0}, [],
                                   {"value": 1.0, "timestamp": 10**30}])
def test_a_point_that_makes_no_sense_is_told_and_the_others_are_imported(
    point: Any, server: Server, tmp_path: Path
) -> None:
    other = {"info": {**RUN["info"], "run_id": "2c3d"}, "data": {}}
    server.answers["runs/search"] = {"runs": [RUN, other, 7, {"info": 3}]}
    server.answers["metrics/get-history"] = {"metrics": [point]}
    found = imported(server, tmp_path)
    assert [run.uid for run in found.runs] == ["2c3d"]
    assert sum("invalid" in line for line in found.damage) == 3


@pytest.mark.parametrize(("environment", "said"), [
    ({}, None), ({"MLFLOW_TRACKING_TOKEN": "t0"}, "Bearer t0"),
    ({"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "pw", "MLFLOW_TRACKING_TOKEN": "t0"},
     "Basic YW5uOnB3"),
])
def test_who_asks_is_said_as_the_environment_has_it(
    environment: dict[str, str], said: str | None, server: Server
) -> None:
    web_from_environment(server.url, environment).get("api/2.0/mlflow/experiments/search")
    assert server.asked[0][2].get("Authorization") == said


def test_what_is_no_address_is_told() -> None:
    for address in ("http://ann:pw@[bad", "http://ann:p/w@host:5000", "http://host:many"):
        with pytest.raises(SettingsError, match="Not a URL of a server") as refused:
            web_from_environment(address, {})
        assert address not in str(refused.value)
    with pytest.raises(ImportFailed, match="cannot be reached: nonnumeric port"):
        ServerSource(Web("http://127.0.0.1:many"))


def test_a_secret_in_the_address_goes_to_the_server_and_nowhere_else(server: Server) -> None:
    web = web_from_environment(server.url.replace("http://", "http://ann:pw@"), {})
    server.answers["x"] = with_status(500)
    with pytest.raises(WebFailed, match="answered 500") as failed:
        web.get("api/2.0/mlflow/x")
    assert server.asked[0][2]["Authorization"] == "Basic YW5uOnB3"
    assert "pw" not in f"{failed.value} {web.url}"
