"""Follows a job in the terminal: its output, and its state in the bottom line."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import time
from collections.abc import Callable

from barograph.cli.jobs.job_line import reason_of
from barograph.cli.record.live import LiveView, can_be_drawn_on
from barograph.errors import BarographError, StoreError
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.instance_log import LogReader
from barograph.jobs.job_report import JobReport, JobView
from barograph.jobs.layout import host_name
from barograph.jobs.outputs import outputs_of
from barograph.jobs.state import JobState, Phase
from barograph.model.one_line import shown
from barograph.watch.figures import count, duration, figure, size
from barograph.watch.lasting_stream import LastingStream

EXIT_SCRIPT, EXIT_INFRASTRUCTURE, EXIT_JOB_STOPPED, EXIT_INTERRUPTED = 1, 75, 79, 130
"""Exit codes: the script failed; the infrastructure failed; the job was stopped; Ctrl-C ended the waiting, not the
job."""

_LOOK_SECS = 0.2
_BAR_CHARS = 12
_FILES = 3
_INDENT = 10
"""Column of the values in the closing lines."""
_WAITED_SECS = 5.0
"""A shorter time without instances is normal startup time."""


class Output:
    """Prints the output of a job's instances as it arrives.

    Args:
        view: The job.
        as_json: Print a JSON object for each line.
    """

    def __init__(self, view: JobView, *, as_json: bool = False) -> None:
        self._view, self._as_json = view, as_json
        self._attempt = -1
        self._readers: list[LogReader] = []

    def print_new(self, state: JobState, *, all_attempts: bool = False) -> None:
        """Print what was written since the last call; lines of several instances begin with their names."""
        for attempt in range(max(0, self._attempt) if all_attempts or self._attempt >= 0 else max(0, state.attempt),
                             state.attempt + 1):
            if attempt != self._attempt:
                self._attempt = attempt
                self._readers = [LogReader(self._view.store, attempt, index)
                                 for index in range(self._view.submission.spec.instances)]
            for reader in self._readers:
                for text in reader.new():
                    sys.stdout.write(self._named(reader.index, text))
        sys.stdout.flush()

    def _named(self, index: int, text: str) -> str:
        if self._as_json:
            return "".join(json.dumps({"attempt": self._attempt, "instance": host_name(index), "text": line}) + "\n"
                           for line in text.splitlines())
        if len(self._readers) == 1:
            return text
        return "".join(f"{host_name(index)}  {line}" for line in text.splitlines(keepends=True))


def follow(
    view: JobView, *, output: bool = True, as_json: bool = False, live: bool = True,
    model: str = "", wait: Callable[[float], object] = time.sleep,
) -> JobReport:
    """Show a job until it ends, then its result; return its last report. Ctrl-C stops waiting, not the job.

    Args:
        view: The job.
        output: Print the output of its script.
        as_json: Print only the last report, as JSON.
        live: Show its state in the bottom line of the terminal.
        model: Where the caller copies its model to; "": nowhere.
        wait: Sleeps for some seconds.
    """
    shown = Output(view) if output and not as_json else None
    stream = LastingStream(sys.stderr)
    line = LiveView(stream) if live and not as_json and can_be_drawn_on(stream) else None
    if line:
        line.open()
    try:
        report = _followed(view, shown, line, wait)
    except KeyboardInterrupt:
        report = view.report()
    finally:
        if line:
            line.close()
    if as_json:
        from barograph.cli.printing import Printer  # loaded here: it loads rich

        Printer().json(report.to_json())
    else:
        for text in closing_lines(report, view, model):
            print(_fitted(text), file=sys.stderr)
    return report


def _fitted(text: str) -> str:
    """Return a line, wrapped between words on a terminal."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=" " * _INDENT, break_long_words=False,
                                   break_on_hyphens=False))


def _followed(
    view: JobView, shown: Output | None, line: LiveView | None, wait: Callable[[float], object]
) -> JobReport:
    home, ensure_at = JobsHome(), 0.0
    while True:
        if time.monotonic() >= ensure_at:  # otherwise the job would wait forever after its controller was killed
            ensure_at = time.monotonic() + ENSURE_SECS
            ensure_controller(home)
        try:
            report = view.report()
            if shown:
                shown.print_new(view.state, all_attempts=True)
            if line:
                line.draw(status_of(report))
            if report.is_over:
                return report
        except StoreError as error:
            if line:
                line.draw([f"cannot read the job; retrying: {error}"])
        wait(_LOOK_SECS)


def status_of(report: JobReport) -> list[str]:
    """Return the state of a job as short phrases, the most important first."""
    parts = [report.doing or str(report.phase)]
    if report.total_bytes:
        parts[0] += f" {bar(report.done_bytes / report.total_bytes)} of {size(report.total_bytes)}"
    if report.reason and not report.is_over:
        parts.append(report.reason.rstrip("."))
    if report.step:
        parts.append(f"step {report.step:,}")
    if report.loss is not None:
        parts.append(f"loss {figure(report.loss)}")
    if report.interruptions:
        parts.append(count(report.interruptions, "interruption"))
    parts.append(duration(report.waited_secs + report.trained_secs))
    return parts


def bar(done: float) -> str:
    """Return a share as a progress bar with a percentage.

    Example:
        >>> bar(0.25)
        '[###---------] 25%'
    """
    filled = round(min(1.0, done) * _BAR_CHARS)
    return f"[{'#' * filled}{'-' * (_BAR_CHARS - filled)}] {done:.0%}"


def closing_lines(report: JobReport, view: JobView, model: str = "") -> list[str]:
    """Return the result of a job in a few lines."""
    times = f"{duration(report.trained_secs)} on {count(report.instances, 'instance')}" if report.trained_secs else (
        "never started")
    if report.waited_secs >= _WAITED_SECS:
        times += f", {duration(report.waited_secs)} waiting"
    if report.interruptions:
        times += f", {count(report.interruptions, 'interruption')}, {count(report.repeated_steps, 'repeated step')}"
    lines = ["", f"barograph: job {report.name} {report.phase}. {reason_of(report)}".rstrip(), f"  time    {times}"]
    if not report.is_over:
        lines = [f"barograph: job {report.name} continues. To wait for it:  barograph wait {report.name}"]
    if report.bill and not math.isnan(report.bill.cost):
        lines.append(f"  cost    {report.bill.line.removeprefix('cost ')}")
    if report.is_over and (files := _files(view)):
        lines.append(f"  files   {files}")
        if "model/" in files:
            lines.append(f"  model   {model or f'barograph wait {report.name} --model DIR copies it'}")
    return [*lines, f"  run     {report.url.removeprefix('file://')}"]


def _files(view: JobView) -> str:
    try:
        names = [shown(link.name) for link in outputs_of(view.store)]
    except BarographError as error:
        return f"cannot be listed: {error}"  # the result of the job is more important
    return ", ".join(names[:_FILES]) + (f" and {len(names) - _FILES} more" if len(names) > _FILES else "")


def exit_code_of(report: JobReport) -> int:
    """Return the exit code for a job."""
    if not report.is_over:
        return EXIT_INTERRUPTED
    if report.phase is Phase.FINISHED:
        return 0
    if report.phase is Phase.STOPPED or report.exit_code == EXIT_JOB_STOPPED:
        return EXIT_JOB_STOPPED
    return EXIT_SCRIPT if report.users_fault else EXIT_INFRASTRUCTURE
