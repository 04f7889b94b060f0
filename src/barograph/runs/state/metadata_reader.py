"""Reads the metadata files of workers for those who go on without the ones they cannot read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.runs.format.layout import metadata_name
from barograph.store.base import Store

_Metadata = TypeVar("_Metadata")


class MetadataReader:
    """Reads metadata files. A damaged one is named in `damage`, and counts as absent.

    Args:
        store: The run's.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._damage: dict[str, str] = {}

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read so far, one sentence a metadata file."""
        return tuple(self._damage.values())

    def read(
        self, folder: str, worker: str, attempt: int, read: Callable[[memoryview, str], _Metadata]
    ) -> _Metadata | None:
        """Return what `read` makes of a metadata file; None where there is none, or it is damaged.

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
