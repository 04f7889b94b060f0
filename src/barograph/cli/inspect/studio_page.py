"""Starts the web UI and says where it is."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from barograph.cli.opening import store_at
from barograph.cli.printing import Printer
from barograph.errors import SettingsError
from barograph.web.server import serve

TOKEN_VARIABLE = "BAROGRAPH_STUDIO_TOKEN"


def show_studio(roots: Sequence[str], *, host: str, port: int | None, open_browser: bool, as_json: bool) -> None:
    """Serve the web UI until it is interrupted.

    Raises:
        SettingsError: A root does not exist, or the address cannot be used.
        StoreError: A root cannot be read.
    """
    for root in roots:
        store_at(root)
        if "://" not in root and not Path(root).is_dir():
            raise SettingsError(f"There is no directory {root}. Record a run first: barograph run train.py")
    printer = Printer()

    def ready(url: str) -> None:
        if as_json:
            printer.json({"url": url})
        else:
            printer.line(f"barograph: studio at {url} (Ctrl-C ends it)")
        if open_browser and os.environ.get("DISPLAY", "") + os.environ.get("WAYLAND_DISPLAY", ""):
            webbrowser.open(url)

    serve(roots, host=host, port=port, token=os.environ.get(TOKEN_VARIABLE, ""), on_ready=ready)
