"""Starts the web UI and says where it is."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from barograph.cli.printing import Printer
from barograph.cli.store_place import store_at
from barograph.errors import SettingsError
from barograph.web.server import Links, is_loopback, serve
from barograph.web.tokens import Role, Token, checked_secret, tokens_from_file

TOKEN_VARIABLE, READER_VARIABLE = "BAROGRAPH_STUDIO_TOKEN", "BAROGRAPH_STUDIO_READER_TOKEN"


def show_studio(
    roots: Sequence[str], *, host: str, port: int | None, tokens: Path | None, open_browser: bool, as_json: bool
) -> None:
    """Serve the web UI until it is interrupted.

    Raises:
        SettingsError: A root does not exist, the address cannot be used, or a token is invalid.
        StoreError: A root cannot be read.
    """
    for root in roots:
        store_at(root)
        if "://" not in root and not Path(root).is_dir():
            raise SettingsError(f"There is no directory {root}. Record a run first: barograph run train.py")
    printer = Printer()
    known = tokens_from_file(tokens) if tokens is not None else _tokens_of_environment()

    def ready(links: Links) -> None:
        if as_json:
            network = links.elsewhere or (None if is_loopback(host) else links)
            for_others = {f"network_{name}": url for name, url in _urls(network, tokens).items()}
            printer.json({**_urls(links, tokens), **for_others})
        else:
            here = _lines(links, tokens)
            others = _lines(links.elsewhere, tokens, " from other machines") if links.elsewhere else []
            for line in (f"{here[0]} (Ctrl-C ends it)", *here[1:], *others):
                printer.line(f"barograph: {line}")
        if open_browser and os.environ.get("DISPLAY", "") + os.environ.get("WAYLAND_DISPLAY", ""):
            webbrowser.open(links.page if tokens is not None else links.writer)

    serve(roots, host=host, port=port, tokens=known, on_ready=ready)


def _lines(links: Links, tokens: Path | None, whence: str = "") -> list[str]:
    if tokens is not None:
        return [f"studio at {links.page}{whence} for the tokens of {tokens}"]
    read_only = [f"read only at {links.reader}{whence}"] if links.reader not in ("", links.writer) else []
    return [f"studio at {links.writer}{whence}", *read_only]


def _urls(links: Links | None, tokens: Path | None) -> dict[str, str | None]:
    if links is None:
        return {"url": None, "reader_url": None}
    if tokens is not None:  # its secrets are not printed
        return {"url": links.page, "reader_url": None}
    return {"url": links.writer, "reader_url": links.reader or None}


def _tokens_of_environment() -> list[Token]:
    variables = ((TOKEN_VARIABLE, Role.WRITER), (READER_VARIABLE, Role.READER))
    return [Token(checked_secret(secret), role) for name, role in variables if (secret := os.environ.get(name, ""))]
