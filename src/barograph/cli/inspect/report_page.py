"""Implementation of `barograph report`: writes the page atomically and prints its path."""

from __future__ import annotations

import re
from pathlib import Path

from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Printer
from barograph.experiments.shown import exhibits_of_run
from barograph.model.clock import SystemClock
from barograph.report.page import page_of
from barograph.report.reading import report_of
from barograph.report.savings import price_from
from barograph.share.background import background_of
from barograph.store.whole_file import check_writable, write_whole
from barograph.tune.overview import overview_of
from barograph.tune.studies import name_of, study_at
from barograph.tune.study import Study
from barograph.tune.study_page import study_document
from barograph.watch.figures import size
from barograph.web.one_file import run_as_file, study_as_file

_NAME = "report"


def write_report(
    place: str, out: Path | None, price_per_hour: float | None, currency: str | None, *, as_json: bool
) -> None:
    """Write the report of the run or study at `place` and print its path.

    Raises:
        SettingsError: The price is invalid.
        StoreDenied: The page cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    price = price_from(price_per_hour, currency)
    if (study := study_at(place)) is not None:
        _write_study(study, place, out, as_json=as_json)
        return
    run, printer = run_at(place), Printer()
    file = out if out is not None else Path(default_name(place))
    if out is not None or not as_json:
        check_writable(file)
    exhibits = exhibits_of_run(run.store, run.manifest.run_id)
    report = report_of(run, price=price, background=background_of(run), exhibits=exhibits, clock=SystemClock())
    if out is not None or not as_json:
        data = page_of(report).encode()
        write_whole(file, data)
        if not as_json:
            printer.line(f"{report.judgement.verdict} {report.savings.text}" if report.savings.finding
                         else report.judgement.verdict)
            printer.line(f"Wrote {file} ({size(len(data))}). Open it in a browser.")
    if as_json:
        printer.json(report.to_json())
    print_damage(run, place)


def write_interactive(place: str, out: Path | None) -> None:
    """Write the page of the web UI about the run or study at `place`, with all that it shows, and print its path.

    Raises:
        SettingsError: The extra is not installed, or the page was not built.
        StoreDenied: The page cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    printer = Printer()
    file = out if out is not None else Path(default_name(place))
    if (study := study_at(place)) is not None:
        check_writable(file)
        data = study_as_file(study, title=name_of(place), saved_unix=SystemClock().unix()).encode()
        write_whole(file, data)
        printer.line(f"Wrote {file} ({size(len(data))}). Open it in a browser.")
        return
    run = run_at(place)
    check_writable(file)
    data = run_as_file(run.url, title=run.manifest.name, saved_unix=SystemClock().unix()).encode()
    write_whole(file, data)
    printer.line(f"Wrote {file} ({size(len(data))}). Open it in a browser.")
    print_damage(run, place)


def _write_study(study: Study, place: str, out: Path | None, *, as_json: bool) -> None:
    printer, found = Printer(), overview_of(study, name_of(place))
    if out is not None or not as_json:
        file = out if out is not None else Path(default_name(place))
        check_writable(file)
        data = study_document(found, made_unix=SystemClock().unix()).encode()
        write_whole(file, data)
        if not as_json:
            printer.line(found.verdict)
            printer.line(f"Wrote {file} ({size(len(data))}). Open it in a browser.")
    if as_json:
        printer.json(found.to_json())


def default_name(place: str) -> str:
    """Return the file name of a report: the last part of the run's path, in portable characters.

    Example:
        >>> default_name("s3://bucket/runs/first"), default_name("runs/first/"), default_name("..")
        ('first.html', 'first.html', 'report.html')
    """
    last = re.split(r"[/\\]", place.rstrip("/\\"))[-1]
    name = re.sub(r"[^\w.-]+", "-", last).strip(".-")
    return f"{name or _NAME}.html"
