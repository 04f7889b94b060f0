"""Formats the job of a run as one line."""

from __future__ import annotations

import math

from barograph.errors import BarographError
from barograph.jobs.job_log import SPEC
from barograph.jobs.job_report import JobReport, JobView
from barograph.store.base import Store
from barograph.watch.figures import count, duration


def job_line(store: Store) -> str:
    """Return the state or the result of a run's job; "" if the run has no job."""
    try:
        report = _report_of(store)
        return line_of(report) if report else ""
    except BarographError as error:
        return f"cannot be read: {error}"


def state_of_job(store: Store) -> str:
    """Return the state of the job of a run that no process has recorded; "" if there is no job."""
    try:
        report = _report_of(store)
    except BarographError:
        return ""  # `job_line` reports the error
    return (report.doing or str(report.phase)) if report else ""


def _report_of(store: Store) -> JobReport | None:
    if not any(item.name == SPEC for item in store.list(SPEC.rpartition("/")[0])):
        return None
    return JobView("", store).report()


def reason_of(report: JobReport) -> str:
    """Return why a job waits or ended, without its state, which is printed before it."""
    reason = report.reason.removeprefix("Stopped: ")
    return reason[:1].upper() + reason[1:]


def line_of(report: JobReport) -> str:
    """Return a job as one line.

    Example:
        >>> from barograph.jobs.state import Phase
        >>> line_of(JobReport("digits", "runs/digits", Phase.FINISHED, engine="local", instances=2, trained_secs=60.0))
        'finished after 1 min 0 s on 2 instances (local)'
    """
    took = f"{'after' if report.is_over else 'for'} {duration(report.trained_secs)} " if report.trained_secs else ""
    parts = [f"{report.doing or report.phase} {took}on {count(report.instances, 'instance')} ({report.engine})"]
    if report.interruptions:
        parts.append(count(report.interruptions, "interruption"))
        parts.append(count(report.repeated_steps, "repeated step"))
    if report.bill and not math.isnan(report.bill.cost):
        parts.append(report.bill.line.partition(";")[0])
    return ". ".join(filter(None, (", ".join(parts), reason_of(report))))
