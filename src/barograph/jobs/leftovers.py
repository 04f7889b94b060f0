"""Removes what killed commands and controllers left behind.

A submission notes itself in the directory of the jobs before it stores anything, so that the next controller can undo
it if it is killed. Everything else in that directory belongs to a job that is not over.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from barograph.errors import BarographError, DamagedChunk, NewerFormat, NotARun, ObjectNotFound, StoreUnavailable
from barograph.jobs.data.mounts import mounts, unmount
from barograph.jobs.engines.engine import is_left_elsewhere
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.home import JobsHome
from barograph.jobs.job_log import SPEC
from barograph.jobs.submission import read_submission
from barograph.runs.format.layout import JOB, JOURNAL, MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.state.process import Process, is_alive, may_run, this_process
from barograph.store.base import Store
from barograph.store.failures import NO_BUCKET
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

_PART = re.compile(r"\..+\.json\.(\d+)\.[0-9a-f]{6}")
_PROBE = re.compile(r"\.probe-(\d+)-.*")
_OF_PROCESS = ("pid", "host", "boot_id", "started_ticks")


@contextlib.contextmanager
def noted_submission(home: JobsHome, name: str, store: Store, run_id: str) -> Iterator[None]:
    """Submit a job in the block. If it fails, what it stored is removed; if it is killed, the next controller does it.

    Args:
        home: Directory of the jobs of this user.
        name: Name of the job.
        store: Its store.
        run_id: ID of its run, which no other submission has.

    Raises:
        JobRefused: The directory of the jobs cannot be written.
    """
    note = {"name": name, "url": store.url, "run_id": run_id, **asdict(this_process())}
    file = home.write_submitting(run_id, note)
    try:
        yield
    except BaseException:
        with contextlib.suppress(BarographError, OSError):  # otherwise the next controller tries it again
            _undo(home, note, file)
        raise
    file.unlink(missing_ok=True)


@contextlib.contextmanager
def probe_directory(home: JobsHome) -> Iterator[Path]:
    """Yield a new directory for a test of this machine. If this process is killed, the next controller removes it."""
    place = home.path / "work" / f".probe-{os.getpid()}-{os.urandom(3).hex()}"
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        _remove(place)


def has_leftovers(home: JobsHome) -> bool:
    """Return whether a killed process left something, apart from what belongs to jobs that are not over."""
    names = {file.stem for file in _files(home, "secrets")} | _works(home)
    return bool(_files(home, "submitting") or _without_job(home, names) or _parts(home) or _probes(home))


def remove_leftovers(home: JobsHome) -> None:
    """Remove what killed processes left. Only the controller may call it.

    A submission that is under way is not disturbed: it notes itself, then stores secrets, then enters its job, and this
    looks in the same order.

    Raises:
        OSError: Something cannot be removed.
        BarographError: A store is unreachable. It is tried again at the next call.
    """
    secrets, works = _files(home, "secrets"), _works(home)
    notes = [(file, _note(file)) for file in _files(home, "submitting")]
    for file in _parts(home):
        file.unlink(missing_ok=True)
    for probe in _probes(home):
        _remove(probe)
    under_way = {note["name"] for _, note in notes if note and _is_under_way(note)}
    gone = _without_job(home, {file.stem for file in secrets} | works) - under_way
    for file in secrets:
        if file.stem in gone:
            file.unlink(missing_ok=True)
    for name in works & gone:
        LocalEngine(home).release(name)
    with contextlib.ExitStack() as stack:  # if one store fails, the others are cleaned, too
        for file, note in notes:
            if not note:
                file.unlink(missing_ok=True)
            elif not _is_under_way(note):
                stack.callback(_undo, home, note, file)


def _undo(home: JobsHome, note: dict[str, Any], file: Path) -> None:
    """Remove what a submission stored, unless its job is in the queue."""
    if not any(record.name == note["name"] and record.url == note["url"] for record in home.all()):
        _remove_run(store_from_url(note["url"]), note["run_id"])
        others = [other for path in _files(home, "submitting") if path != file and (other := _note(path))]
        if _without_job(home, {note["name"]}) and not any(
                other["name"] == note["name"] and _is_under_way(other) for other in others):
            (home.path / "secrets" / f"{note['name']}.json").unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def _remove_run(store: Store, run_id: str) -> None:
    """Remove the job and the run that a submission stored, and nothing of others."""
    try:
        if read_submission(store).run_id != run_id:
            return
        folders = [JOB, JOURNAL] if _is_run(store, run_id) else [JOB]
        for item in [item for folder in folders for item in store.list(folder)]:
            if item.name != SPEC:
                store.delete(item.name)
        if JOURNAL in folders:
            store.delete(MANIFEST)
        store.delete(SPEC)  # last, because it tells whose the others are
    except (NotARun, DamagedChunk):
        pass
    except StoreUnavailable as error:
        if not str(error).startswith(NO_BUCKET):
            raise
    if isinstance(store, FileStore):
        store.remove_unfinished([JOB, JOURNAL])
        store.remove_empty_folders()


def _is_run(store: Store, run_id: str) -> bool:
    try:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id == run_id
    except ObjectNotFound:
        return True
    except (DamagedChunk, NewerFormat):
        return False


def _without_job(home: JobsHome, names: set[str]) -> set[str]:
    """Return the names that no job has that is not over, or whose instances are kept for the next one.

    A job with a damaged record may not be over.
    """
    kept = {file.stem for file in _files(home, "kept")}
    return names - kept - {record.name for record in home.all() if not record.over} - {
        item.name for item in home.damaged()}


def _files(home: JobsHome, folder: str) -> list[Path]:
    return [path for path in (home.path / folder).glob("*.json") if not path.name.startswith(".")]


def _works(home: JobsHome) -> set[str]:
    """Return the jobs with directories on this machine, apart from those that another machine must remove."""
    return {path.name for path in (home.path / "work").glob("*") if not path.name.startswith(".") and not (
        (places := list(path.glob("*"))) and all(map(is_left_elsewhere, places)))}


def _parts(home: JobsHome) -> list[Path]:
    """Return files whose writer was killed before they had their names."""
    return [path for folder in ("", "jobs", "secrets", "submitting") for path in _abandoned(home.path / folder, _PART)]


def _probes(home: JobsHome) -> list[Path]:
    """Return directories of tests of this machine that were killed."""
    return _abandoned(home.path / "work", _PROBE)


def _abandoned(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the files with a process number in their names, if that process has ended."""
    return [path for path in folder.glob(".*") if (found := pattern.fullmatch(path.name))
            and not may_run(int(found[1]))]


def _note(file: Path) -> dict[str, Any]:
    """Return the note of a submission; empty if it is damaged."""
    try:
        note: dict[str, Any] = json.loads(file.read_bytes())
        return note if {"name", "url", "run_id", *_OF_PROCESS} <= note.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}


def _is_under_way(note: dict[str, Any]) -> bool:
    # Of another machine that shares this directory nothing is known.
    return is_alive(Process(*(note[name] for name in _OF_PROCESS))) is not False


def _remove(place: Path) -> None:
    for mount in mounts(place):
        unmount(mount)
    shutil.rmtree(place, ignore_errors=True)
