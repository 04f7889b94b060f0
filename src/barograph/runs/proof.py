"""Reading a file whose name carries the digest of its bytes."""

from __future__ import annotations

from barograph.errors import DamagedChunk
from barograph.runs.layout import digest_of
from barograph.store.base import Store


def proved(store: Store, name: str, digest: str) -> memoryview:
    """Return the bytes under `name`, which are those that were published.

    Raises:
        DamagedChunk: They are not.
        ObjectNotFound: There are none.
        StoreError: The store does not answer.
    """
    data = store.get(name)
    if digest_of(data) != digest:
        raise DamagedChunk(f"The file is damaged: its {len(data)} bytes are not those that were published ({name} in "
                           f"{store.url}).")
    return data


def proved_by_name(store: Store, name: str) -> memoryview:
    """Return the bytes under a name that carries their digest between dots; raises as `proved`."""
    data = store.get(name)
    if f".{digest_of(data)}." not in name:
        raise DamagedChunk(f"The file's bytes are not those that were written ({name}).")
    return data
