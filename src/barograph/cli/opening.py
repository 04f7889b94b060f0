"""Opens the run at a path, URL or name; suggests another if there is none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from barograph.cli.store_place import store_at as store_at
from barograph.errors import (
    AmbiguousName,
    BarographError,
    DamagedChunk,
    NewerFormat,
    NotARun,
    StoreDenied,
    UnknownJob,
    closest,
)
from barograph.model.items import ItemKind
from barograph.model.one_line import shown, shown_lines
from barograph.runs.format.layout import MANIFEST
from barograph.runs.reading.glance import runs_below
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.places import root_place
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

_LISTED = 3
"""Paths listed in an error."""


def run_at(place: str) -> RunReader:
    """Return the run at a path or URL, or with a name.

    Raises:
        NotARun: There is no run; the message describes what exists, and suggests the closest run.
        AmbiguousName: Several runs have the name; the message lists them.
        NewerFormat, DamagedChunk: The run's manifest cannot be read.
        SettingsError, StoreError: As for `store_at`; or `place` cannot be read.
    """
    store = store_at(place)
    try:
        return RunReader(store)
    except (NotARun, StoreDenied):
        if (named := place_called(place)) is not None:
            return RunReader(store_from_url(named))
        explain_absence(place, store)
        raise
    except NewerFormat as error:
        raise NewerFormat(f"{error} ({store.url})") from None
    except DamagedChunk as error:
        raise DamagedChunk(f"{error} To check the rest: barograph doctor {place}") from None


def place_called(name: str) -> str | None:
    """Return the path of a run by its name in the default root, or by its job on this machine, as `JobsHome.named`.

    Returns:
        None if there is none, or the name is a path.

    Raises:
        AmbiguousName: Several runs have the name; the message lists them.
    """
    if "/" in name or os.sep in name or Path(name).exists():
        return None
    return _place_in_catalog(name) or _place_of_job(name)


def _place_of_job(name: str) -> str | None:
    # Imported on use: few runs are named by their job.
    from barograph.jobs.home import JobsHome

    try:
        return JobsHome().named(name).url
    except (UnknownJob, DamagedChunk):
        return None


def _place_in_catalog(name: str) -> str | None:
    root = root_place()
    if "://" not in root and not Path(root).is_dir():
        return None
    # Imported on use: slower than opening a run, and most are given by path.
    from barograph.experiments.handle import catalog_at

    try:
        catalog = catalog_at(root)
        catalog.feed()
        return str(catalog.item(name, ItemKind.RUN).facts["place"]) or None
    except AmbiguousName:
        raise
    except BarographError:
        return None  # the caller reports that there is no run


def print_damage(run: RunReader, place: str) -> None:
    """Print on standard error that data could not be read, and the command with details; nothing if all could."""
    damage = run.damage
    if damage:
        what = "one part" if len(damage) == 1 else f"{len(damage)} parts"
        print(f"barograph: {what} of this run cannot be read; showing the rest. {shown_lines(damage[0])} Details: "
              f"barograph doctor {place}", file=sys.stderr)


def print_unreadable(reasons: Mapping[str, str]) -> None:
    """Print on standard error, in one line, the runs that could not be read; nothing if all could.

    Args:
        reasons: Reasons by path or URL.
    """
    if not reasons:
        return
    named = "; ".join(f"{place}: {reason.rstrip('.')}" for place, reason in list(reasons.items())[:_LISTED])
    what = "1 run" if len(reasons) == 1 else f"{len(reasons)} runs"
    print(f"barograph: {what} could not be read: {shown(named)}{_and_more(len(reasons))}", file=sys.stderr)


def explain_absence(place: str, store: Store) -> None:
    """Raise NotARun with a suggestion; return if there is none."""
    if _is_study(place, store):
        raise NotARun(f"{place} is a study, not a run. To show it:  barograph tune show {place}")
    if isinstance(store, FileStore):
        try:
            _explain_directory(place, store.root)
        except OSError:
            return  # unreadable; the store's own error reports it
    elif below := runs_below(store):
        _several(place, below)


def _is_study(place: str, store: Store) -> bool:
    # Imported on use: most places are runs.
    from barograph.jobs.home import JobsHome
    from barograph.tune.study_events import identity_of
    from barograph.tune.study_home import StudyHome

    with contextlib.suppress(OSError):
        return ("/" not in place and StudyHome(JobsHome()).has(place)) or bool(identity_of(store))
    return False


def nearest_run(path: Path) -> str:
    """Return a sentence that suggests a run for a wrong path; "" if there is none."""
    names = _runs_in(path.parent)
    default = Path(root_place())
    for folder, known in ((path.parent, names), (default, _runs_in(default))):
        if match := closest(path.name, known):
            return f"Did you mean {_as_typed(folder / match)}?"
    if names:
        where = "here" if path.parent == Path.cwd() else f"in {_as_typed(path.parent)}"
        return f"Runs {where}: {', '.join(sorted(names)[-_LISTED:])}{_and_more(len(names))}."
    known = _runs_in(default)
    return f"The newest run is {default / max(known)}." if known else ""


def nearest_folder(path: Path) -> str:
    """Return a sentence that suggests a directory for a wrong path; "" if there is none."""
    try:
        known = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
    except OSError:
        return ""
    match = closest(path.name, known)
    return f"Did you mean {_as_typed(path.parent / match)}?" if match else ""


def _explain_directory(place: str, path: Path) -> None:
    if path.is_file():
        part_of = next((parent for parent in path.parents if (parent / MANIFEST).is_file()), None)
        hint = f"it is part of the run {_as_typed(part_of)}." if part_of else "a run is a directory."
        raise NotARun(f"{place} is a file; {hint}")
    if not path.exists():
        raise NotARun(f"No run at {place}: no such directory. {nearest_run(path)}".rstrip())
    if not any(path.iterdir()):
        raise NotARun(f"No run at {place}: the directory is empty. {nearest_run(path)}".rstrip())
    part_of = next((parent for parent in path.parents if (parent / MANIFEST).is_file()), None)
    if part_of:
        raise NotARun(f"{place} is not a run but part of the run {_as_typed(part_of)}.")
    # Not deeper, since it may be a home directory.
    below = [found for pattern in ("*", "*/*") for found in path.glob(f"{pattern}/{MANIFEST}")]
    if below:
        _several(place, [str(found.parent.relative_to(path)) for found in below])


def _several(place: str, below: list[str]) -> NoReturn:
    listed = ", ".join(f"{place.rstrip('/')}/{name}" for name in sorted(below)[-_LISTED:])
    what = "a run is" if len(below) == 1 else f"{len(below)} runs are"
    raise NotARun(f"{place} is not a run, but {what} below it: {listed}{_and_more(len(below))}.")


def _runs_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if (entry / MANIFEST).is_file()]
    except OSError:
        return []


def _as_typed(path: Path) -> str:
    """Return a path as a user would type it here."""
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else str(path)
    except ValueError:
        return str(path)


def _and_more(count: int) -> str:
    return f" and {count - _LISTED} more" if count > _LISTED else ""
