"""Output of `barograph logs`."""

from __future__ import annotations

import time
from collections.abc import Callable

import typer

from barograph.cli.jobs.waiting import EXIT_INTERRUPTED, Output
from barograph.errors import StoreUnavailable
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import view_of

_LOOK_SECS = 0.2


def print_logs(
    job: str, *, follow: bool, everything: bool, as_json: bool, wait: Callable[[float], object] = time.sleep
) -> None:
    """Print the output of a job; with `follow`, until it ends.

    Raises:
        UnknownJob, NotARun: The job does not exist.
        StoreError: The job cannot be read.
    """
    home = JobsHome()
    view = view_of(job, home)
    output = Output(view, as_json=as_json)
    ensure_at = 0.0
    try:
        while True:
            if follow and time.monotonic() >= ensure_at:
                ensure_at = time.monotonic() + ENSURE_SECS
                ensure_controller(home)
            try:
                state = view.refresh()
                output.print_new(state, all_attempts=everything or follow)
                if not follow or state.phase.is_over:
                    return
            except StoreUnavailable:
                if not follow:
                    raise
            wait(_LOOK_SECS)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
