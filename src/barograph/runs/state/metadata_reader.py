"""Reading the metadata files of workers, tolerating damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.runs.format.layout import metadata_name
from barograph.store.base import Store

_Metadata = TypeVar("_Metadata")


class MetadataReader:
    """Reads metadata files. A damaged one is listed in `damage` and counts as missing.

    Args:
        store: Store of the run.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._damage: dict[str, str] = {}

    @property
    def damage(self) -> tuple[str, ...]:
        """Unreadable metadata files so far, one sentence each."""
        return tuple(self._damage.values())

    def read(
        self, folder: str, worker: str, attempt: int, read: Callable[[memoryview, str], _Metadata]
    ) -> _Metadata | None:
        """Return a metadata file parsed by `read`; None if it is missing or damaged.

        Raises:
            StoreError: The store cannot be read.
        """
        name = metadata_name(folder, worker, attempt)
        try:
            return read(self._store.get(name), name)
        except ObjectNotFound:
            return None
        except DamagedChunk as error:
            self._damage[name] = str(error)
            return None
