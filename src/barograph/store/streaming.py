"""Reading and writing large objects in parts, in stores that support it; at once in others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barograph.store.base import Store, Streaming


def parts_of(store: Store, name: str) -> Iterator[bytes]:
    """Yield the bytes of an object in order, in parts; raises as `Store.get`."""
    if isinstance(store, Streaming):
        yield from store.parts(name)
    else:
        yield bytes(store.get(name))


def put_parts(store: Store, name: str, parts: Iterable[bytes]) -> None:
    """Write parts in order under a name; raises as `Store.put`. If `parts` raises, nothing is written."""
    if isinstance(store, Streaming):
        store.put_parts(name, parts)
    else:
        store.put(name, list(parts))
