"""Local stand-ins for the metadata services of clouds. They speak the protocols as documented."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = tuple[int, str, dict[str, str]]
"""Status, text and headers."""


class Service:
    """A service whose state a test sets.

    Attributes:
        url: Its address.
        asked: Each request: method and path.
        texts: Response by path; other paths are not found.
        broken: If set, replaces every response.
        stalled: If set, requests block until `release`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        self.texts: dict[str, str] = {}
        self.broken: Reply | None = None
        self.stalled = False
        self.released = threading.Event()

    def answer(self, method: str, path: str, headers: Callable[[str], str | None]) -> Reply:
        """Return the response to a request."""
        raise NotImplementedError


class Ec2(Service):
    """IMDSv2: no response without a valid token.

    Attributes:
        token: The valid one; it changes with each request for a token.
        ttl_secs: Lifetime that it grants.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self.ttl_secs = 21600

    @property
    def token(self) -> str:
        return f"token-{self.tokens}=="

    def answer(self, method: str, path: str, headers: Callable[[str], str | None]) -> Reply:
        """See `Service`."""
        if path == "/latest/api/token":
            if method != "PUT" or not (headers("X-aws-ec2-metadata-token-ttl-seconds") or "").isdigit():
                return 400, "", {}
            self.tokens += 1
            return 200, self.token, {"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": str(self.ttl_secs)}
        if headers("X-aws-ec2-metadata-token") != self.token:
            return 401, "", {}
        if path in self.texts:
            return 200, self.texts[path], {"Content-Type": "text/plain"}
        return 404, "<?xml version='1.0'?><html><head><title>404 - Not Found</title></head></html>", {}


class Gce(Service):
    """Google's metadata server: refuses requests without its header, and marks every response."""

    def answer(self, method: str, path: str, headers: Callable[[str], str | None]) -> Reply:
        """See `Service`."""
        flavor = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
        if method != "GET":
            return 405, "", flavor
        if headers("Metadata-Flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header.", flavor
        return (200, self.texts[path], flavor) if path in self.texts else (404, "not found", flavor)


class AzureImds(Service):
    """Azure's instance metadata service: needs a header and a version."""

    def answer(self, method: str, path: str, headers: Callable[[str], str | None]) -> Reply:
        """See `Service`."""
        if method != "GET":
            return 405, '{ "error": "Method not allowed" }', {}
        if (headers("Metadata") or "").lower() != "true" or "api-version=20" not in path:
            return 400, '{ "error": "Bad request. Required metadata header not specified" }', {}
        place = path.partition("?")[0]
        return (200, self.texts[place], {}) if place in self.texts else (404, '{ "error": "Not found" }', {})


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    """Serve on loopback until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.asked.append((self.command, self.path))
            if service.stalled:
                service.released.wait(600)
                return
            status, text, headers = service.broken or service.answer(self.command, self.path, self.headers.get)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET  # noqa: N815 - the name that the server looks up

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        service.released.set()
        server.shutdown()
        server.server_close()
