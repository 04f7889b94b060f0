"""The interface of stores: five operations on named bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple, Protocol, runtime_checkable


class ObjectInfo(NamedTuple):
    """One object in a listing of a store.

    Attributes:
        name: Path inside the store, with "/" as separator.
        size_bytes: Size.
        modified_unix: Time of the last write by the store's clock.
        version: Identifies the content (an ETag); "" if the store knows none.
    """

    name: str
    size_bytes: int
    modified_unix: float
    version: str = ""


class Part(NamedTuple):
    """Some or all bytes of an object.

    Attributes:
        data: The bytes.
        info: The object that they come from. The time of writing is exact to the second.
    """

    data: memoryview
    info: ObjectInfo


class Store(Protocol):
    """Named bytes. Objects are written atomically and never appended to.

    Every operation may raise `StoreUnavailable` (retrying may help) and `StoreDenied`; writing also
    `StoreFull`. Every operation has a timeout.

    Attributes:
        url: Location, for people and other processes.
    """

    @property
    def url(self) -> str:
        """Location, for people and other processes."""
        ...

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        """Write `data`, or parts of it in order, under `name`, replacing an existing object.

        A reader sees the old bytes or the new ones, never a part. If the process dies meanwhile, the old bytes
        remain.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write `data` under an unused name, durably: it survives a power loss.

        If several processes create the same name at once, exactly one succeeds.

        Raises:
            ObjectExists: The name is in use; the existing object does not change.
        """
        ...

    def get(self, name: str) -> memoryview:
        """Return the bytes of the object `name`.

        Raises:
            ObjectNotFound: There is no such object.
        """
        ...

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """Return all objects below `folder` ("" : all), at any depth, sorted by name.

        A missing folder is empty.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete the object `name` if it exists."""
        ...


class Level(NamedTuple):
    """Direct children of a folder.

    Attributes:
        folders: Full names of the folders in it, sorted.
        objects: Full names of the objects in it, sorted.
    """

    folders: list[str]
    objects: list[str]


@runtime_checkable
class Browsable(Protocol):
    """Optional interface of a `Store`: listing one folder without its subfolders."""

    def level(self, folder: str = "") -> Level:
        """Return the direct children of `folder` ("" : the root).

        A missing folder is empty.
        """
        ...


@runtime_checkable
class Streaming(Protocol):
    """Optional interface of a `Store`: reading and writing large objects in parts."""

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of the object `name` in order, in parts.

        Raises:
            ObjectNotFound: There is no such object.
        """
        ...

    def put_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write parts in order under `name`, as `Store.put` does.

        If `parts` raises, nothing is written, and the exception propagates.
        """
        ...


@runtime_checkable
class Openable(Protocol):
    """Optional interface of a `Store`: random access to large objects."""

    def opened(self, name: str) -> IO[bytes]:
        """Return the object `name` as a seekable file, which the caller closes.

        Reading raises `StoreUnavailable` if the object has been replaced, as far as the store can detect it.

        Raises:
            ObjectNotFound: There is no such object.
        """
        ...


@runtime_checkable
class Informed(Protocol):
    """Optional interface of a `Store`: noticing that an object was replaced, without reading it."""

    def info(self, name: str) -> ObjectInfo:
        """Return size, time and version of the object `name`.

        Raises:
            ObjectNotFound: There is no such object.
        """
        ...


@runtime_checkable
class Ranged(Informed, Protocol):
    """Optional interface of a `Store`: reading parts of objects."""

    def read(self, name: str, start: int = 0, end: int | None = None) -> Part:
        """Return the bytes of the object `name` from `start` up to `end`, which must exist; None: all of them.

        Raises:
            ObjectNotFound: There is no such object.
            NoRanges: The store only reads whole objects.
        """
        ...


@runtime_checkable
class Stamped(Protocol):
    """Optional interface of a `Store`: detecting changes of folders without listing them."""

    def stamp(self, folders: Sequence[str]) -> str:
        """Return a string that changes when an object directly in one of these folders is written or deleted.

        "" if unknown: something has just changed, or changes by others may become visible late. A missing folder is
        empty.
        """
        ...
