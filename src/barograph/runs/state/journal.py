"""Journals: entries about experiments, trials, components and runs, stored next to the runs.

A journal is a folder of immutable metadata files, each with a batch of entries in order. The catalog is
derived from journals and runs, and can be rebuilt from them at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from barograph.errors import DamagedChunk, NewerFormat, ObjectExists
from barograph.model.items import ArtifactLink, Entry, Verb
from barograph.runs.format.layout import JOURNAL
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

JOURNAL_OF_ROOT = ".catalog/journal"
"""Folder below a root of runs: entries about everything but runs."""
JOURNAL_OF_RUN = JOURNAL
"""Folder below a run: its own entries."""

_FORMAT = 1
_MOST_READ_BY_EYE = 20
_NAME = re.compile(r"\d{16,}-[0-9a-f]{8}\.json|0{16}-created-[\w-]+\.json")
_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Batch(NamedTuple):
    """Entries that were written together.

    Attributes:
        name: Name of their metadata file. Names sort by time of writing, after those that
            create an item.
        entries: Entries in order.
    """

    name: str
    entries: tuple[Entry, ...]


class Journal:
    """The entries in one folder of a store.

    Args:
        store: The store.
        folder: `JOURNAL_OF_ROOT` of a root of runs, `JOURNAL_OF_RUN` of a run.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._last_micros = 0

    def write(self, entries: Sequence[Entry], *, mark: str = "") -> Batch:
        """Write entries, and return their batch.

        Args:
            entries: Entries in order.
            mark: Eight hexadecimal digits for the name of their metadata file, instead of random ones: entries written
                again with the same mark and times are stored once.

        Raises:
            StoreError: They could not be written.
        """
        if mark:
            name = f"{int(max(entry.time_unix for entry in entries) * 1e6):016d}-{mark}.json"
            try:
                return self._put(name, entries)
            except ObjectExists:
                return Batch(name, tuple(entries))
        # Entries of one process sort in order of writing, however coarse the clock is.
        self._last_micros = max(int(max(entry.time_unix for entry in entries) * 1e6), self._last_micros + 1)
        return self._put(f"{self._last_micros:016d}-{os.urandom(4).hex()}.json", entries)

    def create(self, entry: Entry) -> Batch:
        """Write the entry that creates an item. If several processes do it at once, one succeeds.

        Raises:
            ObjectExists: The item exists.
            StoreError: The entry could not be written.
        """
        return self._put(f"{0:016d}-created-{entry.uid}.json", [entry])

    def take_over(self, entries: Sequence[Entry]) -> Batch:
        """Write entries copied from elsewhere, and return their batch; copying the same ones again changes nothing.

        Raises:
            StoreError: They could not be written.
        """
        name, data = metadata_of(entries)
        with contextlib.suppress(ObjectExists):  # the name has the digest
            self._store.create(f"{self._folder}/{name}", data)
        return Batch(name, tuple(entries))

    def _put(self, name: str, entries: Sequence[Entry]) -> Batch:
        self._store.create(f"{self._folder}/{name}", _sealed(entries))
        return Batch(name, tuple(entries))

    def names(self) -> list[str]:
        """Return the names of all batches, oldest first.

        Raises:
            StoreError: The store cannot be read.
        """
        found = (item.name.rpartition("/")[2] for item in self._store.list(self._folder))
        return sorted(name for name in found if is_exhibit_json(name))

    def read(self, name: str) -> Batch:
        """Return a batch.

        Raises:
            DamagedChunk: It is damaged.
            NewerFormat: A newer Barograph wrote it.
            ObjectNotFound: There is no such batch.
            StoreError: The store cannot be read.
        """
        place = f"{self._folder}/{name}"
        return batch_of(name, self._store.get(place), place)


def links_in_journal(run: Store, uid: str) -> list[ArtifactLink]:
    """Return the artifacts that a run logged, in that order.

    Raises:
        DamagedChunk, NewerFormat, StoreError: The journal cannot be read.
    """
    journal = Journal(run, JOURNAL_OF_RUN)
    return [ArtifactLink(**entry.data) for name in journal.names() for entry in journal.read(name).entries
            if entry.uid == uid and entry.verb in (Verb.INPUT, Verb.OUTPUT)]


def metadata_of(entries: Sequence[Entry]) -> tuple[str, bytes]:
    """Return a metadata file of entries, and its name, which depends only on the entries.

    Args:
        entries: Entries, at least one.
    """
    data = _sealed(entries)
    micros = int(max(entry.time_unix for entry in entries) * 1e6)
    return f"{max(micros, 0):016d}-{hashlib.sha256(data).hexdigest()[:8]}.json", data


def batch_of(name: str, data: bytes | memoryview, place: str) -> Batch:
    """Return the batch in a metadata file.

    Args:
        name: Name of the metadata file.
        data: Bytes of the file.
        place: Location, for the message.

    Raises:
        DamagedChunk: It is damaged.
        NewerFormat: A newer Barograph wrote it.
    """
    body = unsealed(data, place)
    if not isinstance(body.get("format"), int) or body["format"] > _FORMAT:
        raise NewerFormat(f"The journal has format {body.get('format')}; this Barograph reads formats up to "
                          f"{_FORMAT}. Update Barograph ({place}).")
    try:
        return Batch(name, tuple(
            Entry(str(uid), Verb(verb), _unmarked(data), float(time_unix), str(by))
            for uid, verb, data, time_unix, by in body["entries"]
        ))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedChunk(f"The batch of entries is invalid: {error} ({place}).") from error


def is_exhibit_json(name: str) -> bool:
    """Return whether a batch can have this name."""
    return _NAME.fullmatch(name) is not None


def _sealed(entries: Sequence[Entry]) -> bytes:
    return sealed({"format": _FORMAT, "entries": [
        [entry.uid, str(entry.verb), _marked(entry.data), entry.time_unix, entry.by] for entry in entries
    ]}, on_one_line=len(entries) > _MOST_READ_BY_EYE)


def subjects_of(batches: Iterable[Batch]) -> dict[str, None]:
    """Return the items in the entries, in order."""
    return {entry.uid: None for batch in batches for entry in batch.entries}


def _marked(value: Any) -> Any:
    """Return JSON data with marks for NaN and infinities, to distinguish them from strings."""
    if type(value) is str:
        return value  # most are
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"number": repr(value)}
    if isinstance(value, dict):
        marked = {name: _marked(item) for name, item in value.items()}
        # Escape a table that looks like a mark.
        return {"table": marked} if set(marked) in ({"number"}, {"table"}) else marked
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    return value


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return _NUMBERS[value["number"]]
        if set(value) == {"table"}:
            return {name: _unmarked(item) for name, item in value["table"].items()}
        return {name: _unmarked(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value
