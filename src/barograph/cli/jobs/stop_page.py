"""Output of `barograph stop`."""

from __future__ import annotations

from barograph.cli.jobs.waiting import follow
from barograph.cli.printing import Printer
from barograph.errors import NotARun
from barograph.jobs.controller_process import ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job import request_stop
from barograph.jobs.job_report import view_of
from barograph.jobs.keeping import end_keeping


def stop(job: str, *, wait: bool, as_json: bool) -> None:
    """Ask a job to stop, or forget a job whose files are gone, and print which.

    Raises:
        UnknownJob, NotARun: The job does not exist.
        StoreError: Its store rejects the request.
    """
    home = JobsHome()
    try:
        view = view_of(job, home)
    except NotARun:
        if "/" in job:
            raise
        name = home.named(job).name
        home.forget(name)
        ensure_controller(home)
        if as_json:
            Printer().json({"name": name, "forgotten": True})
        else:
            Printer().line(f"The files of {name} are gone. Barograph ends its processes and no longer lists it.")
        return
    report = view.report()
    if report.is_over and end_keeping(home, report.name):
        ensure_controller(home)
        if not as_json:
            Printer().line(f"{report.name} had ended already ({report.phase}). Its instances are released.")
            return
    if not report.is_over:
        request_stop(view, "requested by the user")
        ensure_controller(home)
        if wait:
            follow(view, output=False, as_json=as_json)
            return
    if as_json:
        Printer().json(report.to_json())
    elif report.is_over:
        Printer().line(f"{report.name} has already ended ({report.phase}).")
    else:
        Printer().line(f"Stopping {report.name}. To wait for its end:  barograph wait {report.name}")
