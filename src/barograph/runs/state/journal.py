"""A journal: what was told of experiments, trials, components and runs, kept where the runs are.

It is a folder of metadata files, each written once: a batch of entries in the order they were told. The catalog is
made of journals and runs, and can be made again of them at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from barograph.errors import DamagedChunk, NewerFormat, ObjectExists
from barograph.model.items import Entry, Verb
from barograph.runs.format.layout import JOURNAL
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

JOURNAL_OF_ROOT = ".catalog/journal"
"""Below a root of runs: what is told of everything that is no run of its own."""
JOURNAL_OF_RUN = JOURNAL
"""Below a run: what it tells of itself."""

_FORMAT = 1
_MOST_READ_BY_EYE = 20
_NAME = re.compile(r"\d{16,}-[0-9a-f]{8}\.json|0{16}-created-[\w-]+\.json")
_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Batch(NamedTuple):
    """Entries that were told together.

    Attributes:
        name: Of their metadata file; they sort as they were written, by the clocks of who wrote them, after those that
            create an item.
        entries: In order.
    """

    name: str
    entries: tuple[Entry, ...]


class Journal:
    """The entries in one folder of a store.

    Args:
        store: Where.
        folder: `JOURNAL_OF_ROOT` of a root of runs, `JOURNAL_OF_RUN` of a run.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._last_micros = 0

    def write(self, entries: Sequence[Entry], *, mark: str = "") -> Batch:
        """Keep entries, and return them as they can be read.

        Args:
            entries: In order.
            mark: Eight hexadecimal digits in the name of their metadata file, in place of random ones: what is told
                again
                with the same mark and times is there once.

        Raises:
            StoreError: They could not be kept.
        """
        if mark:
            name = f"{int(max(entry.time_unix for entry in entries) * 1e6):016d}-{mark}.json"
            try:
                return self._put(name, entries)
            except ObjectExists:
                return Batch(name, tuple(entries))
        # What one process says sorts as it was said, however coarse the clock is.
        self._last_micros = max(int(max(entry.time_unix for entry in entries) * 1e6), self._last_micros + 1)
        return self._put(f"{self._last_micros:016d}-{os.urandom(4).hex()}.json", entries)

    def create(self, entry: Entry) -> Batch:
        """Keep the entry that creates an item, which is done once: of several who do it at once, one succeeds.

        Raises:
            ObjectExists: It was created before.
            StoreError: It could not be kept.
        """
        return self._put(f"{0:016d}-created-{entry.uid}.json", [entry])

    def take_over(self, entries: Sequence[Entry]) -> Batch:
        """Keep entries that were told elsewhere, and return them; who takes the same ones over again changes nothing.

        Raises:
            StoreError: They could not be kept.
        """
        name, data = metadata_of(entries)
        with contextlib.suppress(ObjectExists):  # the name says what is in it
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
            DamagedChunk: It is not what was written.
            NewerFormat: A newer Barograph wrote it.
            ObjectNotFound: There is none.
            StoreError: The store cannot be read.
        """
        place = f"{self._folder}/{name}"
        return batch_of(name, self._store.get(place), place)


def metadata_of(entries: Sequence[Entry]) -> tuple[str, bytes]:
    """Return a metadata file of entries, and a name that they make: the same ones are always the same metadata file.

    Args:
        entries: At least one.
    """
    data = _sealed(entries)
    micros = int(max(entry.time_unix for entry in entries) * 1e6)
    return f"{max(micros, 0):016d}-{hashlib.sha256(data).hexdigest()[:8]}.json", data


def batch_of(name: str, data: bytes | memoryview, place: str) -> Batch:
    """Return the batch that a metadata file is.

    Args:
        name: Of the metadata file.
        data: Its bytes.
        place: Where it is, for the message.

    Raises:
        DamagedChunk: It is not what was written.
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
    """Return whether a batch can have that name."""
    return _NAME.fullmatch(name) is not None


def _sealed(entries: Sequence[Entry]) -> bytes:
    return sealed({"format": _FORMAT, "entries": [
        [entry.uid, str(entry.verb), _marked(entry.data), entry.time_unix, entry.by] for entry in entries
    ]}, on_one_line=len(entries) > _MOST_READ_BY_EYE)


def subjects_of(batches: Iterable[Batch]) -> dict[str, None]:
    """Return the items that are spoken of, in order."""
    return {entry.uid: None for batch in batches for entry in batch.entries}


def _marked(value: Any) -> Any:
    """Return JSON data in which numbers that JSON lacks are told from texts that are written alike."""
    if type(value) is str:
        return value  # most are
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"number": repr(value)}
    if isinstance(value, dict):
        marked = {name: _marked(item) for name, item in value.items()}
        # A table that looks like a mark is marked itself.
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
