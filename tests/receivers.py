"""Who is told, in tests: a web server that keeps what it gets, or hangs, and ports that nobody listens on."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PATIENCE_SECS = 600.0


@dataclass
class Got:
    """One request: when it came, its headers, its bytes."""

    at: float
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Hook:
    """A web server on loopback.

    Attributes:
        answers: Status of each answer, the last one again and again.
        headers: Of each answer.
        hang: Read the request and answer nothing.
        drip: Answer a byte now and then, for ever.
    """

    answers: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drip: bool = False
    got: list[Got] = field(default_factory=list)
    url: str = ""
    came: threading.Condition = field(default_factory=threading.Condition)
    over: threading.Event = field(default_factory=threading.Event)

    def wait_for(self, count: int) -> list[Got]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.got) >= count, PATIENCE_SECS), f"{len(self.got)} of {count} came"
            return list(self.got)


@contextlib.contextmanager
def hook(**options: Any) -> Iterator[Hook]:
    """Run a web server that takes POSTs."""
    made = Hook(**options)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with made.came:
                number = len(made.got)
                made.got.append(Got(time.time(), dict(self.headers), body))
                made.came.notify_all()
            if made.hang:
                made.over.wait(PATIENCE_SECS)
                return
            if made.drip:
                self._drip()
                return
            self.send_response(made.answers[min(number, len(made.answers) - 1)])
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _drip(self) -> None:
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not made.over.wait(0.05):
                    self.wfile.write(b"x")
                    self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_SECS)


def closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
