"""`barograph jobs`: list the jobs of this user."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    action: Annotated[
        str | None, typer.Argument(metavar="adopt", help="adopt: take over the jobs of a killed controller "
                                                           "instead of listing jobs.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List all jobs. Default: the newest 30.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the jobs submitted from this machine, the newest first.

    Restarts their controller if it was killed, and removes what killed jobs left behind.

    Examples:

      barograph jobs

      barograph jobs adopt

      barograph jobs --json | jq -r '.[] | select(.phase == "running") | .name'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.jobs_page import adopt, print_jobs

    if action == "adopt":
        adopt(as_json=as_json)
    elif action is not None:
        raise typer.BadParameter(f'"{action}" is not "adopt". To show a job:  barograph show {action}')
    else:
        print_jobs(everything=everything, as_json=as_json)
