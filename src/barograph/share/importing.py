"""An archive brought into a root of runs: what is there already stays, and a run is seen when all of it is there."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barograph.errors import DamagedChunk, ImportFailed, ObjectExists, ObjectNotFound, StoreDenied, StoreError
from barograph.experiments.artifacts import ARTIFACTS, is_kept
from barograph.experiments.catalog import Catalog
from barograph.experiments.collecting import wanted_places
from barograph.model.clock import SystemClock
from barograph.runs.layout import MANIFEST
from barograph.runs.papers import manifest_from_bytes
from barograph.share.checking import Checked
from barograph.share.exporting import Progress
from barograph.share.manifest import ArchivedRun
from barograph.share.members import Member, member_from_name
from barograph.store.base import Store
from barograph.store.objects import FileStore
from barograph.store.streaming import parts_of, put_parts
from barograph.store.urls import store_from_url

_IDENTITY_CHARS = 6
_TRIES = 3

_Place = tuple[Store, str]
"""A store, and a name in it."""


@dataclass(frozen=True, slots=True, order=True)
class ImportedRun:
    """A run that an archive brought.

    Attributes:
        name: For people.
        run_id: Its identity.
        place: Where it is now.
        added: Objects that were put there; 0: all of it was there already.
        new: It was not there before.
    """

    name: str
    run_id: str
    place: str
    added: int
    new: bool


@dataclass(slots=True)
class Imported:
    """What became of an archive.

    Attributes:
        root: URL of the root that it was brought into.
        runs: Its runs.
        artifacts: That are new here.
        artifacts_there: That were here already.
        entries: Told of its items, and new here.
        entries_there: That were known already.
        size_bytes: Of what was copied.
        left_out: What the archive itself left out.
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
        """Return it as JSON data."""
        return {**{name: getattr(self, name) for name in self.__slots__ if name != "runs"},
                "runs": [{name: getattr(run, name) for name in run.__slots__} for run in self.runs]}


@dataclass(slots=True)
class _Plan:
    """What is to be put where.

    Attributes:
        members: By name in the archive: folder below the root ("" : the root), and name in it.
        last: Likewise of the papers by which runs become visible.
        places: Folder in the archive to where the run is, below the root or elsewhere.
        new: Folders of runs that are not there yet.
        artifact_places: All artifacts of the archive.
        artifacts, artifacts_there: How many are new, and how many are not.
    """

    members: dict[str, _Place] = field(default_factory=dict)
    last: dict[str, _Place] = field(default_factory=dict)
    places: dict[str, Store] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    artifact_places: dict[str, _Place] = field(default_factory=dict)
    artifacts: int = 0
    artifacts_there: int = 0


def bring_in(found: Checked, catalog: Catalog, *, on_progress: Progress = lambda done, total: None) -> Imported:
    """Bring what an archive holds into the root of a catalog. Twice is once.

    Args:
        found: The archive, looked through.
        catalog: Of the root, brought up to date.
        on_progress: Told how far it is.

    Raises:
        ImportFailed: A run is there already with other content; then nothing is changed.
        BadArchive: The file has changed since it was looked through; then nothing stays.
        StoreError: The root cannot be read or written; then what was put is taken away again.
    """
    plan = _planned(found, catalog)
    total = sum(found.manifest.members[name].size_bytes for name in (*plan.members, *plan.last))
    _put_all(found, plan, on_progress, total)
    fresh = catalog.take_over(found.entries) if found.entries else 0
    added = {run.folder: sum(member.run == run.folder and member.name in {**plan.members, **plan.last}
                             for member in found.members()) for run in found.manifest.runs}
    catalog.look_again({run.run_id for run in found.manifest.runs if added[run.folder]})
    catalog.feed()
    return Imported(
        catalog.store.url,
        [ImportedRun(run.name, run.run_id, plan.places[run.folder].url, added[run.folder], run.folder in plan.new)
         for run in found.manifest.runs],
        plan.artifacts, plan.artifacts_there, fresh, len(found.entries) - fresh, total, found.manifest.left_out,
    )


def _planned(found: Checked, catalog: Catalog) -> _Plan:
    root, plan = catalog.store, _Plan()
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
    return plan


def _plan_artifact(found: Checked, member: Member, root: Store, plan: _Plan, wanted: Collection[str]) -> None:
    there = {info.name: info.size_bytes for info in root.list(member.name.rpartition("/")[0])}
    is_there = there.get(member.name) == found.manifest.members[member.name].size_bytes
    plan.artifacts_there += is_there
    plan.artifacts += not is_there
    plan.artifact_places[member.name] = root, member.name
    # One that nobody has yet might be collected before its run has come, so it is made young again.
    if not is_there or (member.name not in wanted and not is_kept(root, member.digest, SystemClock().unix())):
        plan.members[member.name] = root, member.name


def _plan_run(found: Checked, run: ArchivedRun, members: list[Member], catalog: Catalog, plan: _Plan) -> None:
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
    """Return where the run is already, in this root; None where it is not."""
    item = catalog.item_by_uid(run.run_id)
    places = [str(item.facts["place"])] if item is not None and item.facts["place"] else []
    for place in (*places, _below(catalog.store, run.folder), _below(catalog.store, _other_folder(run))):
        store = store_from_url(place)
        with contextlib.suppress(StoreDenied):  # a file is there
            if _run_id_at(store) == run.run_id:
                return store
    return None


def _free_place(run: ArchivedRun, members: list[Member], root: Store) -> Store:
    """Return a place below the root with nothing in it but what an import of this run began to put there."""
    ours = {member.object for member in members}
    for folder in (run.folder, _other_folder(run)):
        store = store_from_url(_below(root, folder))
        with contextlib.suppress(StoreDenied):  # a file is there
            if all(info.name in ours for info in store.list()) and _run_id_at(store) is None:
                return store
    raise ImportFailed(f'Run "{run.name}" cannot be put anywhere: {_below(root, run.folder)} and '
                       f"{_below(root, _other_folder(run))} hold something else, or may not be read. Move one of them.")


def _missing(found: Checked, run: ArchivedRun, members: list[Member], store: Store) -> Iterator[Member]:
    """Yield what a run that is there lacks and may lack.

    Raises:
        ImportFailed: It has other content.
    """
    there = {info.name: info.size_bytes for info in store.list()}
    for member in members:
        said = found.manifest.members[member.name]
        if member.object not in there:
            if not member.is_optional:
                raise _differs(run, member, "is not there", store)
            yield member
        elif not member.is_replaced and (
            there[member.object] != said.size_bytes or _sha256(store, member.object) != said.sha256
        ):
            raise _differs(run, member, "is another", store)


def _differs(run: ArchivedRun, member: Member, how: str, store: Store) -> ImportFailed:
    return ImportFailed(f'Run "{run.name}" ({run.run_id}) is there already with other content: {member.object} {how}. '
                        f"Nothing was imported. Import it into another root, or move that run away ({store.url}).")


def _put_all(found: Checked, plan: _Plan, on_progress: Progress, total: int) -> None:
    put: list[_Place] = []
    before = {store.url: {info.name for info in store.list()} for store in plan.places.values()}
    done = 0
    try:
        for name, (store, target) in plan.members.items():
            if target not in before.get(store.url, ()):
                put.append((store, target))
            put_parts(store, target, found.parts(name))
            done += found.manifest.members[name].size_bytes
            on_progress(done, total)
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


def _put_again(found: Checked, plan: _Plan) -> None:
    """Put what is missing though it was put: another import of the same archive may have failed, and taken it away.

    Raises:
        ImportFailed: Somebody takes it away again and again.
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
    raise ImportFailed(f"What is imported is taken away again, {next(iter(missing))} and more. Is there another import, "
                       "or something that cleans up?")


def _not_there(found: Checked, plan: _Plan) -> dict[str, _Place]:
    lists: dict[tuple[str, str], set[str]] = {}
    missing: dict[str, _Place] = {}
    for name, (store, target) in {**plan.artifact_places, **plan.members, **plan.last}.items():
        folder = target.rpartition("/")[0] if member_from_name(name).digest else ""
        if (store.url, folder) not in lists:
            lists[store.url, folder] = {info.name for info in store.list(folder)}
        if target not in lists[store.url, folder]:
            missing[name] = store, target
    return missing


def _take_away(put: list[_Place]) -> None:
    """Delete what was put, the papers by which runs are visible first; what cannot be deleted is seen by nobody."""
    ours = {store.url for store, name in put if name == MANIFEST}
    for store, name in reversed(put):
        with contextlib.suppress(StoreError):
            # A run that is visible, and not by us, was finished meanwhile by another import of the same archive.
            if name.startswith(ARTIFACTS) or store.url in ours or _run_id_at(store) is None:
                store.delete(name)
        if isinstance(store, FileStore):
            _remove_empty((store.root / name).parent, store.root)


def _remove_empty(folder: Path, top: Path) -> None:
    with contextlib.suppress(OSError):
        while folder.is_relative_to(top):
            folder.rmdir()
            folder = folder.parent


def _run_id_at(store: Store) -> str | None:
    """Return the identity of the run in a place; "" of one that cannot be read; None where there is none."""
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


