"""Output of `barograph logs`."""

from __future__ import annotations

import time
from collections.abc import Callable

import typer

from barograph.cli.jobs.waiting import EXIT_INTERRUPTED, Output
from barograph.jobs.controller_process import ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import view_of

_LOOK_SECS = 0.2


def print_logs(
    job: str, *, follow: bool, everything: bool, as_json: bool, wait: Callable[[float], object] = time.sleep
) -> None:
    """Print the output of a job, until it ends if it is followed.

    Raises:
        UnknownJob, NotARun: There is no such job.
        StoreError: It cannot be read.
    """
    home = JobsHome()
    view = view_of(job, home)
    output = Output(view, as_json=as_json)
    if follow:
        ensure_controller(home)
    try:
        while True:
            state = view.refresh()
            output.print_new(state, all_attempts=everything or follow)
            if not follow or state.phase.is_over:
                return
            wait(_LOOK_SECS)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
