"""`barograph wait`: wait for the end of a job."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, or its directory or URL.")],
    output: Annotated[bool, typer.Option("--output", help="Also print the output of the script.")] = False,
    model: Annotated[
        str | None, typer.Option(metavar="DIR", help="Then copy the files of its model to this directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Wait until a job ends, and report how it ended.

    Exit code: 0 finished, 1 the script failed, 75 the infrastructure failed, 79 stopped. Ctrl-C stops waiting; the
    job continues.

    Examples:

      barograph wait train-ab12 && ./deploy.sh

      barograph wait train-ab12 --model ./model

      barograph wait train-ab12 --json | jq -r .reason
    """
    # Loaded here, because --help needs none of it.
    import contextlib
    from pathlib import Path

    from barograph.cli.jobs.waiting import exit_code_of, follow
    from barograph.errors import JobError
    from barograph.jobs.home import JobsHome
    from barograph.jobs.job_report import view_of
    from barograph.jobs.outputs import check_model_directory, fetched_model
    from barograph.jobs.state import Phase

    view = view_of(job, JobsHome())
    if model is not None:
        check_model_directory(Path(model))
    report = follow(view, output=output, as_json=as_json, model=model or "")
    if model is not None and report.is_over:
        # That a job which failed has left none is no news.
        with contextlib.suppress(*([] if report.phase is Phase.FINISHED else [JobError])):
            fetched_model(view.store, Path(model))
    raise typer.Exit(exit_code_of(report))
