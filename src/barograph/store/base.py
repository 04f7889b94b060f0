"""What Barograph asks of a place that keeps bytes under names: five verbs, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple, Protocol, runtime_checkable


class ObjectInfo(NamedTuple):
    """One object of a store, as a listing shows it.

    Attributes:
        name: Path inside the store, parts joined by "/".
        size_bytes: How long it is.
        modified_unix: When it was last written, by the store's own clock.
    """

    name: str
    size_bytes: int
    modified_unix: float


class Store(Protocol):
    """Bytes under names. An object is there whole or not at all; nothing is appended to.

    Every verb may raise `StoreUnavailable` (trying again may help) and `StoreDenied`; those that write,
    `StoreFull` too. No verb waits for ever.

    Attributes:
        url: Where it is, for people and for another process.
    """

    @property
    def url(self) -> str:
        """Where it is, for people and for another process."""
        ...

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Put `data`, or parts of it in order, under `name`, in place of what may be there.

        A reader sees the old bytes or the new ones, never a part. Whoever dies in the middle leaves what
        was there before.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Put `data` under a name that is free, so that they outlive a loss of power.

        Of several processes that create one name at once, one succeeds.

        Raises:
            ObjectExists: The name is taken; what is there stays as it is.
        """
        ...

    def get(self, name: str) -> memoryview:
        """Return the bytes under `name`.

        Raises:
            ObjectNotFound: There are none.
        """
        ...

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """Return every object below `folder` ("" : all), at any depth, sorted by name.

        A folder that does not exist is empty.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete what is under `name`, if anything is."""
        ...


class Level(NamedTuple):
    """What stands directly in a folder.

    Attributes:
        folders: Names of the folders in it, from the top of the store, sorted.
        objects: Names of the objects in it, likewise.
    """

    folders: list[str]
    objects: list[str]


@runtime_checkable
class Browsable(Protocol):
    """What a `Store` may also be: one that can be walked folder by folder, past what nobody asks for."""

    def level(self, folder: str = "") -> Level:
        """Return what stands directly in `folder` ("" : at the top), without a look at what is below.

        A folder that does not exist is empty.
        """
        ...


@runtime_checkable
class Streaming(Protocol):
    """What a `Store` may also be: one whose objects go in and out part by part, however large they are."""

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes under `name` in order, some at a time.

        Raises:
            ObjectNotFound: There are none.
        """
        ...

    def put_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Put parts in order under `name`, as `Store.put` does.

        Where `parts` raises, nothing is put, and that is raised.
        """
        ...


@runtime_checkable
class Openable(Protocol):
    """What a `Store` may also be: one whose objects can be read here and there, however large they are."""

    def opened(self, name: str) -> IO[bytes]:
        """Return the bytes under `name` as a file that can be wound forth and back; who asked for it closes it.

        Reading raises `StoreUnavailable` where they have been replaced meanwhile, as far as the store can tell.

        Raises:
            ObjectNotFound: There are none.
        """
        ...


@runtime_checkable
class Stamped(Protocol):
    """What a `Store` may also be: one that tells, without listing them, whether folders are as they were."""

    def stamp(self, folders: Sequence[str]) -> str:
        """Return what changes as soon as something is put directly into one of these folders, or deleted from it.

        "" where that cannot be told: something has just changed, or others' changes may come late. A folder that does
        not exist is one that is empty.
        """
        ...
