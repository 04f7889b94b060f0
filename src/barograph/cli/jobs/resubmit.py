"""`barograph resubmit`: submit a job again with changed hyperparameters."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, or its directory or URL.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE...]", help="Hyperparameters to change.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Where to store the new job and its run.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the output and the state until the job ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Submit a job again, with changed hyperparameters.

    The new job runs the code of the current directory as it is now, with the same package versions unless its
    requirements have changed.

    Examples:

      barograph resubmit train-ab12

      barograph resubmit train-ab12 lr=0.2 epochs=10 --wait
    """
    # Loaded here, because --help needs none of it.
    import os
    from dataclasses import replace

    from barograph.cli.jobs.submit_page import pairs, tell_submitted
    from barograph.errors import JobRefused
    from barograph.jobs.home import JobsHome
    from barograph.jobs.job_report import view_of
    from barograph.jobs.submitting import submit

    view = view_of(job, JobsHome())
    spec = view.submission.spec
    changed = replace(spec.changed(pairs(changes or (), "a change of a hyperparameter")), name="")
    try:
        submitted = submit(changed, to=to or "", packages=view.store)
    except JobRefused as error:
        there = view.submission.directory
        if there in ("", os.getcwd()):
            raise
        raise JobRefused(f"{error}\nThe job was submitted in another directory: {there}") from error
    tell_submitted(submitted, wait=wait, as_json=as_json)
