"""smdebug's names of everything in a run, stored beside the records, for queries by these names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.ingest.smdebug.index import GLOBAL, MODES
from barograph.ingest.smdebug.names import Naming
from barograph.model.key import key_from_text
from barograph.model.step import ANOTHER_TRAINING, Mode
from barograph.runs.format.layout import IMPORTED
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

BOOK = f"{IMPORTED}/smdebug.json"

SHAPE = "[shape]"
"""Suffix of the path of an array with the shape of a tensor, if it was saved separately."""

NumberForm = tuple[str, tuple[int, ...]]
"""Data type and shape of a one-element array that is stored as a scalar."""


@dataclass(slots=True)
class Book:
    """smdebug's names, and its data that rows cannot hold.

    Attributes:
        naming: Names and keys.
        workers: Barograph's name of a worker to smdebug's.
        source: Where it was imported from; "": recorded here.
        collections: Name to smdebug's metadata of a collection.
        num_workers: Number of workers according to smdebug.
        ended: Whether smdebug recorded the end of the training.
        numbers: Name of a value stored as a scalar to its original array.
        texts: Names of string arrays, stored as the bytes of a JSON list.
        original_names: Name to TensorFlow's name.
        trainings: Label of an optimizer to the mode of its steps. Steps without a mode and steps of mode "train" are
            both training; if a run has both, each counts from 0, and the later one is another training.
        damage: What could not be imported, one sentence each.
    """

    naming: Naming
    workers: dict[str, str] = field(default_factory=dict)
    source: str = ""
    collections: dict[str, Any] = field(default_factory=dict)
    num_workers: int = 1
    ended: bool = True
    numbers: dict[str, NumberForm] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    original_names: dict[str, str] = field(default_factory=dict)
    trainings: dict[str, str] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)

    def optimizer_of(self, mode: str) -> str:
        """Return the optimizer label of steps of a mode."""
        if MODES[mode] is not Mode.TRAIN:
            return ""
        for label, known in self.trainings.items():
            if known == mode:
                return label
        label = f"{ANOTHER_TRAINING}{len(self.trainings) + 1}" if self.trainings else ""
        self.trainings[label] = mode
        return label

    def mode_of(self, mode: Mode, optimizer: str) -> str:
        """Return smdebug's mode of such steps."""
        return self.trainings.get(optimizer, GLOBAL) if mode is Mode.TRAIN else mode.name

    def put(self, store: Store) -> None:
        """Write it to the run, replacing an earlier one."""
        # Copies, because the recorder may add to them concurrently.
        names = {name: str(key) for name, key in dict(self.naming.keys).items()}
        numbers = {name: [kind, list(shape)] for name, (kind, shape) in dict(self.numbers).items()}
        store.put(BOOK, sealed({
            "source": self.source, "names": names,
            "workers": self.workers, "collections": self.collections, "num_workers": self.num_workers,
            "ended": self.ended, "numbers": numbers,
            "texts": sorted(self.texts), "original_names": self.original_names, "trainings": self.trainings,
            "damage": self.damage,
        }))


def book_in(store: Store) -> Book | None:
    """Return the smdebug names of a run; None if it has none.

    Raises:
        DamagedChunk: It cannot be read.
        StoreError: The store cannot be read.
    """
    try:
        body = unsealed(store.get(BOOK), BOOK)
    except ObjectNotFound:
        return None
    try:
        return _book(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedChunk(f"A metadata file is invalid: {error} ({BOOK}).") from error


def texts_as_bytes(texts: list[str]) -> bytes:
    """Return an array of strings as the bytes of a JSON list."""
    return json.dumps(texts).encode()


def _book(body: Mapping[str, Any]) -> Book:
    return Book(
        Naming(keys={name: key_from_text(text) for name, text in body["names"].items()}),
        dict(body["workers"]), body["source"], dict(body["collections"]), int(body["num_workers"]), bool(body["ended"]),
        {name: (kind, tuple(shape)) for name, (kind, shape) in body["numbers"].items()}, set(body["texts"]),
        dict(body["original_names"]), dict(body["trainings"]), list(body["damage"]),
    )
