"""`barograph logs`: print the output of a job."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, or its directory or URL.")],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until the job ends.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also print the output of earlier attempts.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line: attempt, instance and text.")
    ] = False,
) -> None:
    """Print the output of a job's script.

    With several instances, each line begins with the name of its instance: algo-1, algo-2, …

    Examples:

      barograph logs train-ab12

      barograph logs -f train-ab12

      barograph logs train-ab12 --json | jq -r .text
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.logs_page import print_logs

    print_logs(job, follow=follow, everything=everything, as_json=as_json)
