"""What smdebug called everything in a run: kept beside the records, so that it can be asked for in its words."""

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
"""Ends the path of an array that is the shape of a tensor, where that was saved by itself."""

NumberForm = tuple[str, tuple[int, ...]]
"""Type of the elements, and shape, of an array of one element that is kept as a plain number."""


@dataclass(slots=True)
class Book:
    """What smdebug called everything, and all of its own that rows do not hold.

    Attributes:
        naming: Names and keys.
        workers: Our name of a worker to its own.
        source: Where it was imported from; "": recorded here.
        collections: Name to what smdebug notes of it.
        num_workers: As it says.
        ended: The training was said to be over.
        numbers: Name of what is kept as a plain number to the array that it was.
        texts: Names of arrays of texts, kept as the bytes of a JSON list.
        original_names: Name to what TensorFlow called it.
        trainings: Label of an optimizer to the mode of its steps. A script that never said its mode and one that says
            "train" both train; where one run has both, each counts from 0, and the one that came later is another
            training.
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
        """Return the label under which steps of a mode stand."""
        if MODES[mode] is not Mode.TRAIN:
            return ""
        for label, known in self.trainings.items():
            if known == mode:
                return label
        label = f"{ANOTHER_TRAINING}{len(self.trainings) + 1}" if self.trainings else ""
        self.trainings[label] = mode
        return label

    def mode_of(self, mode: Mode, optimizer: str) -> str:
        """Return smdebug's mode of the steps that stand so."""
        return self.trainings.get(optimizer, GLOBAL) if mode is Mode.TRAIN else mode.name

    def put(self, store: Store) -> None:
        """Write it into its run, in place of what may be there."""
        # Copies: whoever records may be adding to them meanwhile.
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
    """Return the book of a run; None where it has none.

    Raises:
        DamagedChunk: It cannot be read.
        StoreError: The store does not answer.
    """
    try:
        body = unsealed(store.get(BOOK), BOOK)
    except ObjectNotFound:
        return None
    try:
        return _book(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedChunk(f"The paper does not say what it must: {error} ({BOOK}).") from error


def texts_as_bytes(texts: list[str]) -> bytes:
    """Return an array of texts as it is kept: a JSON list."""
    return json.dumps(texts).encode()


def _book(body: Mapping[str, Any]) -> Book:
    return Book(
        Naming(keys={name: key_from_text(text) for name, text in body["names"].items()}),
        dict(body["workers"]), body["source"], dict(body["collections"]), int(body["num_workers"]), bool(body["ended"]),
        {name: (kind, tuple(shape)) for name, (kind, shape) in body["numbers"].items()}, set(body["texts"]),
        dict(body["original_names"]), dict(body["trainings"]), list(body["damage"]),
    )
