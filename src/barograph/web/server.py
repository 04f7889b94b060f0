"""Serves the web application until it is interrupted."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barograph.errors import SettingsError
from barograph.runs.reading.freed_memory import share_arenas
from barograph.web.registry import Registry, Studio, roots_shown
from barograph.web.tokens import Role, Token, new_tokens

if TYPE_CHECKING:
    from barograph.web.idle import Idle

DEFAULT_PORT = 8642
_NEXT_PORTS = 20
_TICKS_A_MINUTE = 600
_TICKS_TO_TIDY = 50
"""Five seconds."""
_PAGE_FIRST_SECS = 0.1
EXTRA = "The web UI needs an extra: pip install 'barograph[studio]'."
"""What to do if a library is missing."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of a server.

    Attributes:
        page: Address without a token.
        writer: Address with the token of a writer; the same as `page` without tokens.
        reader: Address with the token of a reader; "" if there is none.
        elsewhere: The same with the name of this machine, for others; None if `page` already has what others need.
    """

    page: str
    writer: str
    reader: str = ""
    elsewhere: Links | None = None


def serve(
    roots: Sequence[str], *, host: str, port: int | None, tokens: Sequence[Token] = (),
    on_ready: Callable[[Links], object], idle: Idle | None = None,
) -> None:
    """Serve the runs below `roots` until the process is interrupted.

    Args:
        roots: Paths or URLs.
        host: Address to listen on.
        port: Port; None: 8642, or the next that is free.
        tokens: Each request needs one of these; none: no token if only this machine can connect, else new ones.
        on_ready: Called with the addresses once the server responds.
        idle: Timeout; None: never.

    Raises:
        SettingsError: The extra is not installed, or the address cannot be used.
    """
    try:
        import uvicorn

        from barograph.web.starting import Starting
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None
    share_arenas()
    listening = _socket(host, port)
    tokens = tokens or (() if is_loopback(host) else new_tokens())
    links = links_of(host, listening.getsockname()[1], tokens)

    def load() -> Any:
        from barograph.runs.reading.freed_memory import keep_arrow_small
        from barograph.web.app import application

        return application(roots, hosts=hosts_of(host), tokens=tokens, before_records=keep_arrow_small)

    def fail() -> None:
        server.should_exit = True

    app = Starting(load, on_failure=fail, hosts=hosts_of(host), tokens=tokens)
    server = uvicorn.Server(uvicorn.Config(idle.watching(app) if idle else app, log_level="warning", access_log=False,
                                           server_header=False, timeout_graceful_shutdown=1))
    started, ticked = server.startup, server.on_tick

    noted = ExitStack()

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await started(sockets)
        noted.enter_context(Registry().entered(Studio(links.page, roots_shown(roots))))
        on_ready(links)
        # Imports slow down everything else, and a browser that starts now sends its first request after this.
        asyncio.get_running_loop().call_later(_PAGE_FIRST_SECS, app.begin)

    async def on_tick(counter: int) -> bool:
        over = idle is not None and counter % _TICKS_A_MINUTE == 0 and await asyncio.to_thread(idle.is_over)
        if counter % _TICKS_TO_TIDY == 0:
            await asyncio.to_thread(app.tidy)
        return await ticked(counter) or over

    server.startup = startup  # type: ignore[method-assign]  # it has no hooks for these
    server.on_tick = on_tick  # type: ignore[method-assign]
    with noted:
        server.run(sockets=[listening])
    try:
        app.check()
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None


def links_of(host: str, port: int, tokens: Sequence[Token]) -> Links:
    """Return the addresses of a server with these tokens."""
    if host in ("0.0.0.0", "::"):
        return replace(links_of("127.0.0.1", port, tokens), elsewhere=links_of(socket.gethostname(), port, tokens))
    page = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    links = {token.role: f"{page}?token={quote(token.secret, safe='')}" for token in reversed(tokens)}
    reader = links.get(Role.READER, "")
    return Links(page, links.get(Role.WRITER, reader) or page, reader)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(host: str) -> list[str]:
    """Return the allowed values of the `Host` header for an address; [] for any, since it needs a token."""
    return ["127.0.0.1", "localhost", "[::1]", host] if is_loopback(host) else []


def _socket(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _NEXT_PORTS)]
    reason = ""
    for number in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
        except (OSError, OverflowError) as error:
            listening.close()
            reason = getattr(error, "strerror", "") or str(error)
        else:
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
    raise SettingsError(f"Cannot listen on {host}:{ports[0]}: {reason}. Choose another: --port 0 takes a free one.")
