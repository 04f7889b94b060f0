"""Imports an archive into a root: existing objects stay, and a run becomes visible when it is complete."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barograph.errors import ImportFailed, ObjectExists, StoreError
from barograph.experiments.artifacts import ARTIFACTS
from barograph.experiments.catalog import Catalog
from barograph.runs.format.layout import MANIFEST
from barograph.runs.state.imported import MARK, mark_imported
from barograph.share.checking import Checked
from barograph.share.exporting import Progress
from barograph.share.members import member_from_name
from barograph.share.planning import Place, Plan, planned, run_id_at
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.streaming import put_parts

_TRIES = 3


@dataclass(frozen=True, slots=True, order=True)
class ImportedRun:
    """An imported run.

    Attributes:
        name: Name of the run.
        run_id: ID of the run.
        place: Its new location.
        added: Number of added objects; 0: the run was complete already.
        new: Whether it did not exist before.
    """

    name: str
    run_id: str
    place: str
    added: int
    new: bool


@dataclass(slots=True)
class Imported:
    """Result of an import.

    Attributes:
        root: URL of the root.
        runs: Imported runs.
        artifacts: Number of new artifacts.
        artifacts_there: Number of artifacts that existed already.
        entries: Number of new journal entries.
        entries_there: Number of journal entries that existed already.
        size_bytes: Number of copied bytes.
        left_out: Omissions of the archive.
    """

    root: str
    runs: list[ImportedRun] = field(default_factory=list)
    artifacts: int = 0
    artifacts_there: int = 0
    entries: int = 0
    entries_there: int = 0
    size_bytes: int = 0
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {**{name: getattr(self, name) for name in self.__slots__ if name != "runs"},
                "runs": [{name: getattr(run, name) for name in run.__slots__} for run in self.runs]}


def bring_in(found: Checked, catalog: Catalog, *, on_progress: Progress = lambda done, total: None) -> Imported:
    """Import an archive into the root of a catalog. Repeating it changes nothing.

    Args:
        found: The checked archive.
        catalog: Up-to-date catalog of the root.
        on_progress: Called with the bytes written and their total.

    Raises:
        ImportFailed: A run exists with different content; then nothing is changed.
        BadArchive: The file changed since it was checked; then everything is undone.
        StoreError: The root cannot be read or written; then everything is undone.
    """
    plan = planned(found, catalog)
    total = sum(found.manifest.members[name].size_bytes for name in (*plan.members, *plan.last))
    _put_all(found, plan, on_progress, total)
    fresh = catalog.take_over(found.entries) if found.entries else 0
    added = Counter(member_from_name(name).run for name in (*plan.members, *plan.last))
    catalog.look_again({run.run_id for run in found.manifest.runs if added[run.folder]})
    catalog.feed()
    return Imported(
        catalog.store.url,
        [ImportedRun(run.name, run.run_id, plan.places[run.folder].url, added[run.folder], run.folder in plan.new)
         for run in found.manifest.runs],
        plan.artifacts, plan.artifacts_there, fresh, len(found.entries) - fresh, total, found.manifest.left_out,
    )


def _put_all(found: Checked, plan: Plan, on_progress: Progress, total: int) -> None:
    put: list[Place] = []
    before = {store.url: {info.name for info in store.list()} for store in plan.places.values()}
    done = 0
    try:
        for name, (store, target) in plan.members.items():
            if target not in before.get(store.url, ()):
                put.append((store, target))
            put_parts(store, target, found.parts(name))
            done += found.manifest.members[name].size_bytes
            on_progress(done, total)
        for folder in plan.new:
            # Before the run becomes visible.
            put.append((plan.places[folder], MARK))
            mark_imported(plan.places[folder], found.archive.path.rpartition("/")[2], time.time())
        for name, (store, target) in plan.last.items():
            put.append((store, target))
            _create(found, name, store, target)
            done += found.manifest.members[name].size_bytes
            on_progress(done, total)
        _put_again(found, plan)
    except BaseException:
        _take_away(put)
        raise


def _create(found: Checked, name: str, store: Store, target: str) -> None:
    # Another import of the same archive may have been faster.
    with contextlib.suppress(ObjectExists):
        store.create(target, b"".join(found.parts(name)))


def _put_again(found: Checked, plan: Plan) -> None:
    """Write again what a failing concurrent import of the same archive has removed.

    Raises:
        ImportFailed: It is removed repeatedly.
    """
    for _ in range(_TRIES):
        missing = _not_there(found, plan)
        if not missing:
            return
        for name, (store, target) in missing.items():
            if target == MANIFEST:
                _create(found, name, store, target)
            else:
                put_parts(store, target, found.parts(name))
    raise ImportFailed(f"Another process keeps deleting imported files, such as {next(iter(missing))}. Stop other "
                       "imports and cleanups, then try again.")


def _not_there(found: Checked, plan: Plan) -> dict[str, Place]:
    lists: dict[tuple[str, str], set[str]] = {}
    missing: dict[str, Place] = {}
    for name, (store, target) in {**plan.artifact_places, **plan.members, **plan.last}.items():
        folder = target.rpartition("/")[0] if member_from_name(name).digest else ""
        if (store.url, folder) not in lists:
            lists[store.url, folder] = {info.name for info in store.list(folder)}
        if target not in lists[store.url, folder]:
            missing[name] = store, target
    return missing


def _take_away(put: list[Place]) -> None:
    """Delete written objects, metadata files first, because they make runs visible."""
    ours = {store.url for store, name in put if name == MANIFEST}
    for store, name in reversed(put):
        with contextlib.suppress(StoreError):
            # A visible run was completed meanwhile by another import of the same archive.
            if name.startswith(ARTIFACTS) or store.url in ours or run_id_at(store) is None:
                store.delete(name)
        if isinstance(store, FileStore):
            _remove_empty((store.root / name).parent, store.root)


def _remove_empty(folder: Path, top: Path) -> None:
    with contextlib.suppress(OSError):
        while folder.is_relative_to(top):
            folder.rmdir()
            folder = folder.parent
