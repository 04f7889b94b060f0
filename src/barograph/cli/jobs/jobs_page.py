"""Output of `barograph jobs`."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.cli.jobs.job_line import reason_of
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.jobs.controller_process import ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobReport, reports_of
from barograph.jobs.keeping import kept_notes
from barograph.watch.figures import count, duration, figure, local_time

_REASON_CHARS = 100
"""Three lines of a narrow terminal; `barograph show` prints the whole text."""
_COLUMNS = (
    Column("job"), Column("state"), Column("submitted", spare=3), Column("time", right=True, spare=1),
    Column("step", right=True, spare=2), Column("loss", right=True, spare=2),
    Column("reason", prose=True, most=_REASON_CHARS),
)
_MOST = 30
_NAMED = 5


def print_jobs(*, everything: bool, as_json: bool) -> None:
    """Print the jobs of this user; start their controller if it is gone."""
    home, printer = JobsHome(), Printer()
    records = home.all()
    kept = kept_notes(home)
    ensure_controller(home)
    shown = records if everything or as_json else records[-_MOST:]
    reports = reports_of([*home.damaged(), *reversed(shown)])
    if as_json:
        printer.json([report.to_json() for report in reports])
    elif reports:
        printer.table(_COLUMNS, [_row(report) for report in reports])
        if len(records) > len(shown):
            printer.line(f"{len(records) - len(shown):,} older jobs. To list them:  barograph jobs --all")
        for note in kept:
            printer.line(f"The instances of {note.name} are kept until {local_time(note.until_unix)}. To release them: "
                         f" barograph stop {note.name}")
    else:
        printer.line("No jobs. To start one:  barograph submit train.py")


def adopt(*, as_json: bool) -> None:
    """Start a controller for this user's open jobs if theirs was killed, and print the jobs that it manages."""
    home, printer = JobsHome(), Printer()
    names = [record.name for record in home.all() if not record.over]
    is_new = ensure_controller(home)
    if as_json:
        printer.json({"jobs": names, "started": is_new})
    elif not names:
        printer.line("No open jobs." if not is_new else "No open jobs. Removing what killed jobs left behind.")
    else:
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        printer.line(f"{'A new' if is_new else 'The running'} controller manages "
                     f"{count(len(names), 'job')}: {', '.join(names[:_NAMED])}{more}")


def _row(report: JobReport) -> Sequence[Cell]:
    if report.phase is None:
        return [report.name, state_text(report.doing), "", "", "", "", report.reason]
    return [
        report.name, state_text(report.doing or str(report.phase)), local_time(report.submitted_unix),
        duration(report.trained_secs) if report.trained_secs else "", f"{report.step:,}" if report.step else "",
        figure(report.loss),
        reason_of(report).removeprefix("The script ended with "),
    ]
