"""Selects the contents of an archive: the named items and everything that belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from barograph.errors import ExportError, RunInUse
from barograph.experiments.artifacts import SCHEME, place_of, root_of
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.experiments.recorded_entries import recorded_entries, related_to
from barograph.experiments.writing import artifact_uid, in_parts
from barograph.model.items import Entry, ItemKind, Verb
from barograph.runs.format.layout import FOLDERS, MANIFEST
from barograph.runs.reading.glance import RunState, glances
from barograph.runs.state.imported import MARK
from barograph.runs.state.journal import JOURNAL_OF_ROOT, metadata_of
from barograph.share.manifest import ArchivedItem, ArchivedRun
from barograph.share.members import ONLY_IF_ASKED, fits_as_folder
from barograph.store.base import ObjectInfo, Store
from barograph.store.urls import store_from_url

_UNDER_WAY = (RunState.STARTING, RunState.RUNNING)
_NOT_SHARED = (Verb.DELETE, Verb.RESTORE)
_ENTRIES_A_FILE = 10_000
_IDENTITY_CHARS = 6


class Piece(NamedTuple):
    """A stored object that becomes a member.

    Attributes:
        member: Its name in the archive.
        store, name: Its location.
        size_bytes: Its size.
    """

    member: str
    store: Store
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Contents of an archive.

    Attributes:
        items: Requested items and those that belong to them.
        runs: Runs whose directories are included.
        pieces: Objects of runs, and artifacts, by member name.
        metadata: Files of the journal, by member name.
        asked: Optional directories that are left out, with their size in bytes.
        left_out: Other omissions, one sentence each.
        missing: What no longer exists, one sentence each.
    """

    items: tuple[ArchivedItem, ...] = ()
    runs: tuple[ArchivedRun, ...] = ()
    pieces: tuple[Piece, ...] = ()
    metadata: tuple[tuple[str, bytes], ...] = ()
    asked: dict[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Size of the archive without its directory and manifest."""
        return sum(piece.size_bytes for piece in self.pieces) + sum(len(data) for _, data in self.metadata)


def chosen(
    catalog: Catalog, names: Sequence[str], *, include: Iterable[str] = (), skip_running: bool = False
) -> Choice:
    """Return what belongs to the named items; only metadata files and listings are read.

    Args:
        catalog: Up-to-date catalog.
        names: Names, IDs, or places of runs.
        include: Directories of `ONLY_IF_ASKED` to include.
        skip_running: Leave out active runs, which are an error otherwise.

    Raises:
        UnknownItem: An item does not exist.
        RunInUse: A run is still being written.
        ExportError: The directory of a run no longer exists.
        StoreError: A store cannot be read.
    """
    named = [catalog.item(name) for name in names]
    whole = {item.uid: item for one in named for item in _with_members(catalog, one)}
    runs = [item for item in whole.values() if item.kind is ItemKind.RUN]
    stores = {item.uid: store_from_url(str(item.facts["place"])) for item in runs}
    states = dict(zip(stores, glances(list(stores.values())), strict=True))
    left_out: list[str] = []
    missing: list[str] = []
    choice = Choice()
    for item in sorted(runs, key=lambda item: item.uid):
        state = states[item.uid].state
        manifest = states[item.uid].manifest
        if manifest is not None and manifest.run_id != item.uid:
            raise ExportError(f'Another run is now in the directory of run "{item.name}". barograph reindex finds '
                              f"it ({stores[item.uid].url}).")
        if manifest is None:
            if item in named:
                raise ExportError(f'Cannot read run "{item.name}" ({stores[item.uid].url}).')
            missing.append(f'run "{item.name}": its directory no longer exists or is unreadable')
        elif state in _UNDER_WAY and not skip_running:
            raise RunInUse(f'Run "{item.name}" is still being written. Export it when it has ended, or leave it out '
                           f"with --skip-running ({stores[item.uid].url}).")
        elif state in _UNDER_WAY:
            left_out.append(f'run "{item.name}": it is still being written')
            del whole[item.uid]
        else:
            choice = _with_run(choice, item, stores[item.uid], str(state), set(include))
    choice = _with_artifacts(choice, whole.values(), catalog.store, stores)
    entries = _entries(catalog, whole)
    return replace(
        choice, metadata=tuple(_metadata(entries)), left_out=(*choice.left_out, *left_out),
        missing=(*choice.missing, *missing),
        pieces=tuple(sorted(choice.pieces, key=lambda piece: piece.member)),
        items=tuple(ArchivedItem(item.uid, str(item.kind), item.name)
                    for item in sorted(whole.values(), key=lambda item: item.uid)),
    )


def _with_members(catalog: Catalog, item: Item) -> Iterator[Item]:
    yield item
    if item.kind is ItemKind.EXPERIMENT:
        for trial in catalog.trials_of(item.uid):
            yield from _with_members(catalog, trial)
    elif item.kind is ItemKind.TRIAL:
        yield from catalog.members_of(item.uid)


def _with_run(choice: Choice, item: Item, store: Store, state: str, include: set[str]) -> Choice:
    folder = _folder_for(store, item.uid, {run.folder.casefold() for run in choice.runs})
    pieces, asked, foreign = [], dict(choice.asked), 0
    for found in store.list():
        if found.name == MARK:
            continue  # belongs to this copy only
        part = found.name.partition("/")[0]
        if found.name != MANIFEST and (part not in FOLDERS or "/" not in found.name):
            foreign += not _is_of_the_root(store, found)
        elif part in ONLY_IF_ASKED and part not in include:
            asked[part] = asked.get(part, 0) + found.size_bytes
        else:
            pieces.append(Piece(f"{folder}/{found.name}", store, found.name, found.size_bytes))
    more = (f'{foreign} files in the directory of "{item.name}" that do not belong to a run',) if foreign else ()
    return replace(choice, runs=(*choice.runs, ArchivedRun(folder, item.uid, item.name, state)),
                   pieces=(*choice.pieces, *pieces), asked=asked, left_out=(*choice.left_out, *more))


def _is_of_the_root(store: Store, found: ObjectInfo) -> bool:
    """Return whether an object belongs to a catalog or a nested run: a root may be a run itself."""
    return found.name.startswith(".catalog/") or "/" in found.name


def _folder_for(store: Store, uid: str, taken: set[str]) -> str:
    last = store.url.rstrip("/").rpartition("/")[2]
    folder = last if fits_as_folder(last) else uid
    return folder if folder.casefold() not in taken else f"{folder}-{uid[-_IDENTITY_CHARS:]}"


def _with_artifacts(choice: Choice, items: Iterable[Item], root: Store, runs: dict[str, Store]) -> Choice:
    """Return the choice with the artifacts stored beside the runs, each once."""
    pieces: dict[str, Piece] = {}
    missing, artifacts = [], _Artifacts()
    for item in items:
        roots = [root, *([root_of(runs[item.uid])] if item.uid in runs else [])]
        for link in (*item.inputs, *item.outputs):
            if not link.uri.startswith(SCHEME):
                continue
            name = place_of(link.uri.removeprefix(SCHEME))
            found = next(((store, info) for store in roots if (info := artifacts.look(store, name))), None)
            if found is None:
                missing.append(f'artifact "{link.name}" of "{item.name}": it no longer exists ({link.uri})')
            else:
                pieces[name] = Piece(name, found[0], name, found[1].size_bytes)
    elsewhere = {link.uri for item in items for link in (*item.inputs, *item.outputs)
                 if not link.uri.startswith(SCHEME)}
    more = (f"{len(elsewhere)} inputs and outputs stored elsewhere; only names are included",) if elsewhere else ()
    return replace(choice, pieces=(*choice.pieces, *pieces.values()), left_out=(*choice.left_out, *more),
                   missing=(*choice.missing, *missing))


class _Artifacts:
    """Finds artifacts; lists each directory of a store once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, ObjectInfo]] = {}

    def look(self, store: Store, name: str) -> ObjectInfo | None:
        folder = name.rpartition("/")[0]
        if (store.url, folder) not in self._found:
            self._found[store.url, folder] = {info.name: info for info in store.list(folder)}
        return self._found[store.url, folder].get(name)


def _entries(catalog: Catalog, whole: dict[str, Item]) -> list[Entry]:
    """Return the journal entries of items, and those that create their experiments and trials."""
    artifacts = {artifact_uid(link.digest, link.uri) for item in whole.values()
                 for link in (*item.inputs, *item.outputs)}
    trials = {trial.uid for item in whole.values() for trial in item.trials}
    parents = {str(found.facts["parent"]) for uid in (*trials, *whole)
               if (found := whole.get(uid) or catalog.item_by_uid(uid)) and found.facts["parent"]}
    with catalog.reading() as connection:
        others = related_to(connection, whole.keys(), (ItemKind.ACTION, ItemKind.CONTEXT, ItemKind.ARTIFACT))
        recorded = recorded_entries(connection, {*whole, *artifacts, *others}, in_journal_of_root=True)
        around = recorded_entries(connection, (trials | parents) - whole.keys(), in_journal_of_root=True)
    made = [entry for entry in around if entry.verb is Verb.CREATE]
    return made + [entry for entry in recorded if entry.verb not in _NOT_SHARED]


def _metadata(entries: list[Entry]) -> Iterator[tuple[str, bytes]]:
    for some in in_parts(entries, _ENTRIES_A_FILE):
        name, data = metadata_of(some)
        yield f"{JOURNAL_OF_ROOT}/{name}", data


