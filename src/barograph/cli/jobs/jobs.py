"""`barograph jobs`: list the jobs of this user."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    everything: Annotated[bool, typer.Option("--all", help="List all jobs. Default: the newest 30.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the jobs submitted from this machine, the newest first.

    Restarts their controller if it was killed, and removes what killed jobs left behind.

    Examples:

      barograph jobs

      barograph jobs --json | jq -r '.[] | select(.phase == "running") | .name'
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.jobs_page import print_jobs

    print_jobs(everything=everything, as_json=as_json)
