"""`barograph stop`: stop a job."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, or its directory or URL.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Stop a job; its script may save a checkpoint first.

    The script receives SIGTERM and has two minutes to end. A PyTorch script finishes the current step, and saves a
    checkpoint if the job saves any.

    Examples:

      barograph stop train-ab12

      barograph stop train-ab12 --wait
    """
    # Loaded here, because --help needs none of it.
    from barograph.cli.jobs.stop_page import stop

    stop(job, wait=wait, as_json=as_json)
