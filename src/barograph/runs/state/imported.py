"""The mark of a run from an archive: its command and code are untrusted."""

from __future__ import annotations

from barograph.errors import ObjectNotFound
from barograph.runs.format.layout import IMPORTED
from barograph.runs.format.metadata import sealed
from barograph.store.base import Store

MARK = f"{IMPORTED}/archive.json"


def mark_imported(store: Store, archive: str, time_unix: float) -> None:
    """Mark a run as imported.

    Args:
        store: Store of the run.
        archive: Name of the archive.
        time_unix: Time of the import.

    Raises:
        StoreError: The store does not take it.
    """
    store.put(MARK, sealed({"archive": archive, "imported_unix": time_unix}))


def is_imported(store: Store) -> bool:
    """Return whether a run came from an archive. Raises StoreError if the store cannot be read."""
    try:
        store.get(MARK)
    except ObjectNotFound:
        return False
    return True
