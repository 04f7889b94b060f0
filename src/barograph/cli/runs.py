"""`barograph runs`: the runs in a place, a line each."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    root: Annotated[
        str | None, typer.Argument(metavar="[ROOT]", help="Directory or URL; every run below it is listed. Default: "
                                                          "what BAROGRAPH_ROOT says, else barograph-runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs below a directory or a bucket prefix.

    The newest come first.

    They are looked for six folders deep, and not in folders whose name begins with a dot.

    For each: how it stands, when it started, steps made, the last loss, open findings by severity, what capture
    cost of the training time, and its place, which the other commands take.

    Examples:

      barograph runs

      barograph runs s3://bucket/experiments

      barograph runs --json | jq -r '.[] | select(.state == "failed") | .place'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.runs_page import print_runs
    from barograph.runs.state.places import root_place

    print_runs(root_place(root), as_json=as_json)
