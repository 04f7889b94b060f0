"""`barograph checkpoints`: list the checkpoints of a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the checkpoints of a run.

    For each: its step, when it was saved, and which one barograph resume uses.

    Verifies the newest ones, back to the first good one. Older ones are not read.

    Examples:

      barograph checkpoints runs/first

      barograph checkpoints runs/first --json | jq '.[].steps'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.record.checkpoints_page import print_checkpoints

    print_checkpoints(run, as_json=as_json)
