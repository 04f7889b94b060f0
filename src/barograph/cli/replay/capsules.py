"""`barograph capsules`: list the saved failing steps of a run."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory, URL or name of the run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the failing steps that the flight recorder saved.

    For each: when and why it was saved, and its path.

    Examples:

      barograph capsules runs/first

      barograph capsules runs/first --json | jq '.[].place'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.replay.capsules_page import print_capsules

    print_capsules(run, as_json=as_json)
