"""Imports a directory of smdebug as a run, one file in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import DamagedSource, ImportFailed, ObjectNotFound
from barograph.ingest.smdebug.book import Book
from barograph.ingest.smdebug.files import Listing, StepFiles, listing_of, worker_of_collections
from barograph.ingest.smdebug.index import MODES, Index, collections_from_bytes, index_from_bytes
from barograph.ingest.smdebug.names import Naming
from barograph.ingest.smdebug.reading import SavedStep, saved_step
from barograph.ingest.smdebug.writing import BookWriter
from barograph.model.key import Kind
from barograph.model.manifest import EndState
from barograph.store.base import Store

_NAMED_BEFORE = 3
"""Number of files per worker whose names are read before the first value."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes:
        run: Place of the run.
        source: Place of the source.
        workers: Barograph's name of each worker to smdebug's.
        steps: Number of imported steps, summed over workers.
        values: Number of imported values.
        proved: Number of values with a valid checksum.
        unproved: Number of values without a checksum, as smdebug writes them.
        custom: Names without a matching kind, imported as `custom:`.
        damage: What could not be imported completely, one sentence each.
        foreign: Files that are not smdebug's.
        beside: Number of smdebug's files without values of steps.
    """

    run: str
    source: str
    workers: Mapping[str, str]
    steps: int
    values: int
    proved: int
    unproved: int
    custom: Sequence[str]
    damage: Sequence[str]
    foreign: Sequence[str]
    beside: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def import_smdebug(
    source: Store, target: Store, *, on_progress: Callable[[int, int], object] = lambda done, of: None
) -> Imported:
    """Import what smdebug has saved; damage is reported, and the rest imported.

    Args:
        source: Output of smdebug.
        target: Place for the run; must be empty.
        on_progress: Called after each step with the steps done and their total.

    Raises:
        ImportFailed: The source is not from smdebug or unreadable, or the target is not empty.
        StoreError: A place cannot be read or written.
    """
    if target.list():
        raise ImportFailed(f"The target is not empty. Choose another place for the run ({target.url}).")
    return _Import(source, target, on_progress).done()


class _Import:
    def __init__(self, source: Store, target: Store, on_progress: Callable[[int, int], object]) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._listing: Listing = listing_of(source)
        self._damage: list[str] = []
        self._total = sum(map(len, self._listing.steps.values()))
        self._read = self._steps = self._values = self._proved = self._unproved = 0
        self._book = self._first_book()
        self._writer = BookWriter(target, self._book, workers=len(self._listing.steps))

    def done(self) -> Imported:
        try:
            for worker, steps in self._listing.steps.items():
                self._import_worker(worker, steps)
            self._book.damage = self._damage
            if not self._steps:
                what = self._damage[0] if self._damage else "its steps are empty."
                raise ImportFailed(f"Nothing to import: {what.removesuffix('.')} ({self._source.url}).")
            self._writer.finish()
        except BaseException as error:
            self._writer.give_up(f"The import was interrupted: {type(error).__name__}: {error}")
            raise
        keys = self._book.naming.keys
        return Imported(
            self._target.url, self._source.url, dict(self._book.workers), self._steps, self._values, self._proved,
            self._unproved, tuple(sorted(name for name, key in keys.items() if key.kind is Kind.CUSTOM)),
            tuple(self._damage), self._listing.foreign, self._listing.beside,
        )

    def _first_book(self) -> Book:
        """Return smdebug's names as far as they are known before the first value is read."""
        collections: dict[str, Any] = {}
        num_workers = len(self._listing.steps)
        for name in self._listing.collections:
            try:
                said = collections_from_bytes(self._source.get(name))
            except (DamagedSource, ObjectNotFound) as error:
                self._tell(name, error)
                continue
            # Every worker lists its own tensors; smdebug reads only the first worker's.
            collections = collections or said["collections"]
            num_workers = max(num_workers, said["num_workers"])
        if not self._listing.collections:
            self._damage.append("collections/: there is no collections file.")
        missing = {worker_of_collections(name) for name in self._listing.collections} - self._listing.steps.keys()
        self._damage += [f"events/: {worker} has no files, but it has collections." for worker in
                         sorted(missing)]
        members: dict[str, Collection[str]] = {name: entry["tensor_names"] for name, entry in collections.items()}
        book = Book(Naming(self._names_before(), members), source=self._source.url, collections=collections,
                    num_workers=num_workers, ended=self._listing.ended)
        return book

    def _names_before(self) -> set[str]:
        names: set[str] = set()
        for steps in self._listing.steps.values():
            for files in steps[:_NAMED_BEFORE]:
                try:
                    index = index_from_bytes(self._source.get(files.index)) if files.index else None
                except (DamagedSource, ObjectNotFound):
                    continue  # reported when it is read again
                names |= {*index.starts, *index.shapes} if index else set()
        return names

    def _import_worker(self, worker: str, steps: Sequence[StepFiles]) -> None:
        begun = False
        for files in steps:
            index = self._index(files)
            saved = self._saved(files, index)
            shapes = index.shapes if index else {}
            if saved.values or shapes:
                if not begun:
                    self._writer.begin(worker, saved.time_unix)
                    begun = True
                self._keep(files, saved, shapes)
                self._book.original_names.update(index.original_names if index else {})
            self._read += 1
            self._on_progress(self._read, self._total)
        if begun:
            self._writer.end(EndState.FINISHED, self._damage)

    def _keep(self, files: StepFiles, saved: SavedStep, shapes: Mapping[str, tuple[int, ...]]) -> None:
        if saved.mode not in MODES or saved.mode_step < 0:
            self._damage.append(f"{files.events or files.index}: step {saved.mode_step} of its mode is invalid; the "
                                "file was not imported.")
            return
        self._writer.put(files.step, saved.mode, saved.mode_step, saved.time_unix, saved.values, shapes)
        self._steps += 1
        self._values += len(saved.values)
        self._proved += saved.proved
        self._unproved += saved.unproved

    def _index(self, files: StepFiles) -> Index | None:
        if not files.index:
            self._damage.append(f"{files.events}: the index of this step is missing; its values tell its mode.")
            return None
        try:
            return index_from_bytes(self._source.get(files.index))
        except (DamagedSource, ObjectNotFound) as error:
            self._tell(files.index, error)
            return None

    def _saved(self, files: StepFiles, index: Index | None) -> SavedStep:
        if not files.events:
            if index is not None and index.starts:
                self._damage.append(f"{files.index}: the file with its {len(index.starts)} values is "
                                    "missing.")
            return SavedStep(index.mode, index.mode_step, math.nan) if index else SavedStep()
        try:
            data = self._source.get(files.events)
        except ObjectNotFound as error:
            self._tell(files.events, error)
            return SavedStep()
        if not len(data):
            self._damage.append(f"{files.events}: the file is empty.")
        return saved_step(data, files.step, index, lambda clause: self._damage.append(f"{files.events}: {clause}."))

    def _tell(self, name: str, error: Exception) -> None:
        self._damage.append(f"{name}: {error}".rstrip(".") + ".")


