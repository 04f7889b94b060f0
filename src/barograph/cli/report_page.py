"""What `barograph report` does: reads the run, writes the page whole or not at all, and says where it is."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from pathlib import Path

from barograph.cli.opening import run_at, tell_damage
from barograph.cli.printing import Printer
from barograph.errors import StoreDenied
from barograph.experiments.shown import exhibits_of_run
from barograph.model.clock import SystemClock
from barograph.report.page import page_of
from barograph.report.reading import report_of
from barograph.report.savings import price_from
from barograph.watch.figures import size

_NAME = "report"


def write_report(
    place: str, out: Path | None, price_per_hour: float | None, currency: str | None, *, as_json: bool
) -> None:
    """Report the run at `place`, and say where the page is.

    Raises:
        SettingsError: The price is none.
        StoreDenied: The page cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    price = price_from(price_per_hour, currency)
    run, printer = run_at(place), Printer()
    file = out if out is not None else Path(default_name(place))
    if out is not None or not as_json:
        check_writable(file)
    exhibits = exhibits_of_run(run.store, run.manifest.run_id)
    report = report_of(run, price=price, exhibits=exhibits, clock=SystemClock())
    if out is not None or not as_json:
        data = page_of(report).encode()
        write_whole(file, data)
        if not as_json:
            printer.line(f"{report.judgement.verdict} {report.savings.text}" if report.savings.finding
                         else report.judgement.verdict)
            printer.line(f"{file} ({size(len(data))}). Open it in a browser.")
    if as_json:
        printer.json(report.to_json())
    tell_damage(run, place)


def default_name(place: str) -> str:
    """Return the name of the page of a run: the last part of its place, in letters that every file system takes.

    Example:
        >>> default_name("s3://bucket/runs/first"), default_name("runs/first/"), default_name("..")
        ('first.html', 'first.html', 'report.html')
    """
    last = re.split(r"[/\\]", place.rstrip("/\\"))[-1]
    name = re.sub(r"[^\w.-]+", "-", last).strip(".-")
    return f"{name or _NAME}.html"


def check_writable(file: Path) -> None:
    """Raise where a page cannot be written, before a long run is read for it.

    Raises:
        StoreDenied: `file` is a directory or may not be written, or what it lies in is none, or may not.
    """
    if file.is_dir():
        raise StoreDenied(f"{file} is a directory; --out must be a file, as in {file / _NAME}.html.")
    if file.exists() and not os.access(file, os.W_OK):
        raise StoreDenied(f"{file} may not be written.")
    folder = file.parent
    if not folder.is_dir():
        raise StoreDenied(f"{file} cannot be written: there is no directory {folder}.")
    if not os.access(folder, os.W_OK):
        raise StoreDenied(f"{file} cannot be written: {folder} may not be written.")


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Raises:
        StoreDenied: It cannot be written; what was there before still is.
    """
    if file.exists() and not file.is_file():
        _write_through(file, data)
        return
    # A link stays a link: what it leads to is replaced.
    target = Path(os.path.realpath(file))
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as part:
            part.write(data)
            part.flush()
            os.fsync(part.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StoreDenied(f"{file} cannot be written: {error.strerror}.") from error


def _write_through(device: Path, data: bytes) -> None:
    """Write to a pipe or a terminal, which nothing can be put in the place of."""
    try:
        with device.open("wb") as stream:
            stream.write(data)
    except OSError as error:
        raise StoreDenied(f"{device} cannot be written: {error.strerror}.") from error
