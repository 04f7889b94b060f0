"""`barograph runs`: list runs, one per line."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    root: Annotated[
        str | None, typer.Argument(metavar="[ROOT]", help="Directory or URL that contains the runs. Default: "
                                                          "$BAROGRAPH_ROOT, else barograph-runs.")
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List archived runs, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs in a directory or a bucket prefix.

    The newest come first; deleted and archived runs are left out. Looks six folders deep, except in hidden folders.

    For each: its state, start time, steps, last loss, open problems by severity, recording cost (share of training
    time), and its path, which the other commands accept.

    Examples:

      barograph runs

      barograph runs s3://bucket/experiments

      barograph runs --json | jq -r '.[] | select(.state == "failed") | .place'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.inspect.runs_page import print_runs
    from barograph.runs.state.places import root_place

    print_runs(root_place(root), as_json=as_json, archived=archived)
