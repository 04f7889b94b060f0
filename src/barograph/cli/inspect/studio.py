"""`barograph studio`: the web UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    roots: Annotated[
        list[str] | None, typer.Argument(metavar="[ROOT]...", help="Directories or URLs that contain runs. Default: "
                                                                   "$BAROGRAPH_ROOT, else barograph-runs.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on. Other than this machine's own loopback "
                                                     "addresses, it needs a token.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port. Default: 8642, or the next free "
                                                                              "one. 0: any free one.")] = None,
    tokens: Annotated[Path | None, typer.Option("--tokens", metavar="FILE", help="Accept these tokens. Each line has a "
                                                                                 "role, a name and a token: writer ann "
                                                                                 "TOKEN, or reader bob TOKEN.")] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Show runs and jobs in the browser.

    Serves a page until Ctrl-C: what is wrong, since which step, what to do. Running trainings are shown live.

    Other machines can connect with --host 0.0.0.0. They need a token: that of a writer also allows edits.
    $BAROGRAPH_STUDIO_TOKEN and $BAROGRAPH_STUDIO_READER_TOKEN set them; --tokens gives each person one. Put a proxy
    with TLS in front of it outside a trusted network.

    Examples:

      barograph studio

      barograph studio runs s3://bucket/experiments --no-open
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect.studio_page import show_studio
    from barograph.runs.state.places import root_place

    show_studio(roots or [root_place(None)], host=host, port=port, tokens=tokens, open_browser=open_browser,
                as_json=as_json)
