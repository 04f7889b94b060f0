"""`barograph checkpoints`: what a training can go on from."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the checkpoints of a run.

    For each: after how many steps it was saved, when, and which one resume goes on from.

    The newest are read and proved, back to the first good one; those before it are not read.

    Examples:

      barograph checkpoints runs/first

      barograph checkpoints runs/first --json | jq '.[] | select(.state == "good") | .steps'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.checkpoints_page import print_checkpoints

    print_checkpoints(run, as_json=as_json)
