"""Large objects part by part, in stores that can do so; in others at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barograph.store.base import Store, Streaming


def parts_of(store: Store, name: str) -> Iterator[bytes]:
    """Yield the bytes of an object in order, some at a time; errors as of `Store.get`."""
    if isinstance(store, Streaming):
        yield from store.parts(name)
    else:
        yield bytes(store.get(name))


def put_parts(store: Store, name: str, parts: Iterable[bytes]) -> None:
    """Put parts in order under a name; errors as of `Store.put`. Where `parts` raises, nothing is put."""
    if isinstance(store, Streaming):
        store.put_parts(name, parts)
    else:
        store.put(name, list(parts))
