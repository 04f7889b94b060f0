"""Stores in a bucket or in memory, through obstore."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from obstore.exceptions import BaseError, PreconditionError

from barograph.errors import ObjectExists, ObjectNotFound, StoreUnavailable
from barograph.store.base import Level, ObjectInfo, Part
from barograph.store.failures import LOCAL, passing_through, store_error
from barograph.store.forks import usable
from barograph.store.remote_file import FETCHED_BYTES, RemoteFile

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

FOREIGN = (BaseError, *LOCAL)
"""Errors that obstore raises."""
_PART_BYTES = 2**20
_UPLOADED_BYTES = 8 * 2**20
_UPLOADED_AT_ONCE = 4


class ObjectsStore:
    """A `Store` that uses a store of obstore."""

    def __init__(self, url: str, backend: ObjectStore) -> None:
        self._url = url
        self._own_backend = backend
        self._has_answered = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    @property
    def _backend(self) -> ObjectStore:
        return usable(self._own_backend)

    @property
    def url(self) -> str:
        """URL of the store."""
        return self._url

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        """See `Store.put`."""
        with self._mapped("put", name):
            self._backend.put(name, iter(data) if isinstance(data, list | tuple) else data)

    def create(self, name: str, data: bytes) -> None:
        """See `Store.create`."""
        # An upload in several parts cannot be conditional.
        with self._mapped("create", name):
            self._backend.put(name, data, mode="create", use_multipart=False)

    def get(self, name: str) -> memoryview:
        """See `Store.get`."""
        with self._mapped("get", name):
            return memoryview(self._backend.get(name).bytes())

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """See `Store.list`."""
        with self._mapped("list", folder):
            found = [_info(entry) for batch in self._backend.list(folder or None) for entry in batch]
        return sorted(found)

    def level(self, folder: str = "") -> Level:
        """See `Browsable.level`."""
        with self._mapped("list", folder):
            found = self._backend.list_with_delimiter(folder or None)
            return Level(sorted(found["common_prefixes"]), sorted(entry["path"] for entry in found["objects"]))

    def delete(self, name: str) -> None:
        """See `Store.delete`."""
        with self._mapped("delete", name):
            try:
                self._backend.delete(name)
            except FileNotFoundError:
                return

    def parts(self, name: str) -> Iterator[bytes]:
        """See `Streaming.parts`."""
        with self._mapped("get", name):
            for part in self._backend.get(name).stream(min_chunk_size=_PART_BYTES):
                if part:  # of an empty object memory gives an empty one
                    yield bytes(part)

    def put_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `Streaming.put_parts`."""
        with passing_through(parts) as watched, self._mapped("put", name):
            self._backend.put(name, watched, chunk_size=_UPLOADED_BYTES, max_concurrency=_UPLOADED_AT_ONCE)

    def info(self, name: str) -> ObjectInfo:
        """See `Informed.info`."""
        with self._mapped("get", name):
            return _info(self._backend.head(name))

    def read(self, name: str, start: int = 0, end: int | None = None) -> Part:
        """See `Ranged.read`."""
        with self._mapped("get", name):
            got = self._backend.get(name) if end is None else self._backend.get(name, options={"range": (start, end)})
            return Part(memoryview(got.bytes()), _info(got.meta))

    def opened(self, name: str) -> IO[bytes]:
        """See `Openable.opened`."""
        with self._mapped("get", name):
            head = self._backend.head(name)

        def fetch(start: int, end: int) -> bytes:
            with self._mapped("get", name):
                try:
                    found = self._backend.get(name, options={"range": (start, end), "if_match": head["e_tag"]})
                except PreconditionError as error:
                    raise StoreUnavailable(f"The object was replaced while it was read. Try again ({name} in "
                                           f"{self._url}).") from error
                return bytes(found.bytes())

        return io.BufferedReader(RemoteFile(head["size"], fetch), FETCHED_BYTES)

    @contextmanager
    def _mapped(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            ours = store_error(error, verb=verb, name=name, url=self._url, has_answered=self._has_answered)
            self._has_answered |= isinstance(ours, ObjectExists | ObjectNotFound)
            raise ours from error
        self._has_answered = True


def _info(entry: ObjectMeta) -> ObjectInfo:
    # Some servers quote the ETag only where they answer about one object.
    version = (entry["e_tag"] or "").strip('"')
    return ObjectInfo(entry["path"], entry["size"], entry["last_modified"].timestamp(), version)
