"""Plans an import: where each member goes, and what exists already."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from barograph.errors import DamagedChunk, ImportFailed, ObjectNotFound, StoreDenied
from barograph.experiments.artifacts import is_kept
from barograph.experiments.catalog import Catalog
from barograph.experiments.collecting import wanted_places
from barograph.model.clock import SystemClock
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.state.imported import MARK
from barograph.share.checking import Checked
from barograph.share.manifest import ArchivedRun
from barograph.share.members import Member
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.inside import Inside
from barograph.store.streaming import parts_of
from barograph.store.urls import store_from_url

_IDENTITY_CHARS = 6

Place = tuple[Store, str]
"""A store, and a name in it."""


@dataclass(slots=True)
class Plan:
    """Destinations of an import.

    Attributes:
        members: Name in the archive to directory below the root ("": the root) and name in it.
        last: The same for metadata files that make runs visible.
        places: Directory in the archive to the location of the run, below the root or elsewhere.
        new: Directories of runs that do not exist yet.
        artifact_places: All artifacts of the archive.
        artifacts, artifacts_there: Number of new and of existing artifacts.
    """

    members: dict[str, Place] = field(default_factory=dict)
    last: dict[str, Place] = field(default_factory=dict)
    places: dict[str, Store] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    artifact_places: dict[str, Place] = field(default_factory=dict)
    artifacts: int = 0
    artifacts_there: int = 0


def planned(found: Checked, catalog: Catalog) -> Plan:
    """Return the destinations of an import; nothing is written.

    Raises:
        ImportFailed: A run exists with different content, or no directory is free.
        StoreDenied: Something would be written through a symbolic link.
        StoreError: The root cannot be read.
    """
    root, plan = catalog.store, Plan()
    with catalog.reading() as connection:
        wanted = wanted_places(connection, SystemClock().unix())
    of_runs: dict[str, list[Member]] = {run.folder: [] for run in found.manifest.runs}
    for member in found.members():
        if member.run:
            of_runs[member.run].append(member)
        elif member.digest:
            _plan_artifact(found, member, root, plan, wanted)
    for run in found.manifest.runs:
        _plan_run(found, run, of_runs[run.folder], catalog, plan)
    for store, target in (*plan.members.values(), *plan.last.values()):
        _check_links(store, target)
    return plan


def _plan_artifact(found: Checked, member: Member, root: Store, plan: Plan, wanted: Collection[str]) -> None:
    there = {info.name: info.size_bytes for info in root.list(member.name.rpartition("/")[0])}
    is_there = there.get(member.name) == found.manifest.members[member.name].size_bytes
    plan.artifacts_there += is_there
    plan.artifacts += not is_there
    plan.artifact_places[member.name] = root, member.name
    # An unused artifact might be collected before its run arrives, so it is written again.
    if not is_there or (member.name not in wanted and not is_kept(root, member.digest, SystemClock().unix())):
        plan.members[member.name] = root, member.name


def _plan_run(found: Checked, run: ArchivedRun, members: list[Member], catalog: Catalog, plan: Plan) -> None:
    known = _known_place(run, catalog)
    store = known if known is not None else _free_place(run, members, catalog.store)
    plan.places[run.folder] = store
    if known is None:
        plan.new.add(run.folder)
        missing = members
    else:
        missing = list(_missing(found, run, members, known))
    for member in missing:
        (plan.last if member.object == MANIFEST else plan.members)[member.name] = store, member.object


def _known_place(run: ArchivedRun, catalog: Catalog) -> Store | None:
    """Return the location of the run in this root; None if it does not exist."""
    item = catalog.item_by_uid(run.run_id)
    places = [str(item.facts["place"])] if item is not None and item.facts["place"] else []
    for place in (*places, _below(catalog.store, run.folder), _below(catalog.store, _other_folder(run))):
        store = store_from_url(place)
        with contextlib.suppress(StoreDenied):  # a file is there
            if run_id_at(store) == run.run_id:
                return store
    return None


def _free_place(run: ArchivedRun, members: list[Member], root: Store) -> Store:
    """Return a directory below the root that is empty except for an interrupted import of this run."""
    ours = {MARK, *(member.object for member in members)}
    for folder in (run.folder, _other_folder(run)):
        store = store_from_url(_below(root, folder))
        with contextlib.suppress(StoreDenied):  # a file is there, or a link
            _check_links(root, f"{folder}/{MANIFEST}")
            # It may exist by now, written by another import of the same archive.
            if all(info.name in ours for info in store.list()) and run_id_at(store) in (None, run.run_id):
                return store
    raise ImportFailed(f'No directory for run "{run.name}": {_below(root, run.folder)} and '
                       f"{_below(root, _other_folder(run))} exist or are unreadable. Move one of them.")


def _missing(found: Checked, run: ArchivedRun, members: list[Member], store: Store) -> Iterator[Member]:
    """Yield the optional members that an existing run lacks.

    Raises:
        ImportFailed: Its content differs.
    """
    there = {info.name: info.size_bytes for info in store.list()}
    for member in members:
        expected = found.manifest.members[member.name]
        if member.object not in there:
            if not member.is_optional:
                raise _differs(run, member, "is missing", store)
            yield member
        elif not member.is_replaced and (
            there[member.object] != expected.size_bytes or _sha256(store, member.object) != expected.sha256
        ):
            raise _differs(run, member, "differs", store)


def _differs(run: ArchivedRun, member: Member, how: str, store: Store) -> ImportFailed:
    return ImportFailed(f'Run "{run.name}" ({run.run_id}) exists with different content: {member.object} {how}. '
                        f"Nothing was imported. Import into another root, or move the existing run ({store.url}).")


def _check_links(store: Store, name: str) -> None:
    """Refuse to write through a symbolic link below a root or a run.

    Raises:
        StoreDenied: The path has a symbolic link.
    """
    if isinstance(store, FileStore) and store.root.is_dir():
        Inside(store.root).check(name)


def run_id_at(store: Store) -> str | None:
    """Return the ID of the run at a place; "" if it is unreadable, None if there is none."""
    try:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id
    except ObjectNotFound:
        return None
    except DamagedChunk:
        return ""


def _sha256(store: Store, name: str) -> str:
    digest = hashlib.sha256()
    for part in parts_of(store, name):
        digest.update(part)
    return digest.hexdigest()


def _other_folder(run: ArchivedRun) -> str:
    return f"{run.folder}-{run.run_id[-_IDENTITY_CHARS:]}"


def _below(root: Store, folder: str) -> str:
    return f"{root.url.rstrip('/')}/{folder}"


