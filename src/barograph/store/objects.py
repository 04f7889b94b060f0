"""Stores on a disk, in memory and in a bucket, all through obstore."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.store import LocalStore, MemoryStore

from barograph.store.base import ObjectInfo
from barograph.store.failures import FOREIGN, store_error

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class ObjectsStore:
    """A `Store` over one of obstore's."""

    def __init__(self, url: str, backend: ObjectStore) -> None:
        self._url = url
        self._backend = backend

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    def put(self, name: str, data: bytes) -> None:
        """See `Store.put`."""
        with self._mapped("put", name):
            self._backend.put(name, data)

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
            found = [
                ObjectInfo(entry["path"], entry["size"], entry["last_modified"].timestamp())
                for batch in self._backend.list(folder or None)
                for entry in batch
            ]
        return sorted(found)

    def delete(self, name: str) -> None:
        """See `Store.delete`."""
        with self._mapped("delete", name):
            try:
                self._backend.delete(name)
            except FileNotFoundError:
                return

    @contextmanager
    def _mapped(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            raise store_error(error, verb=verb, name=name, url=self._url) from error


class FileStore(ObjectsStore):
    """A `Store` in a directory, which is made by the first write and not by looking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        super().__init__(str(root), MemoryStore())
        self._open = False

    @property
    def root(self) -> Path:
        """The directory."""
        return self._root

    def put(self, name: str, data: bytes) -> None:
        """See `Store.put`."""
        self._enter("put", name, make=True)
        super().put(name, data)

    def create(self, name: str, data: bytes) -> None:
        """See `Store.create`."""
        self._enter("create", name, make=True)
        super().create(name, data)
        with self._mapped("create", name):
            path = self._root / name
            _sync(path)
            _sync(path.parent)

    def get(self, name: str) -> memoryview:
        """See `Store.get`."""
        self._enter("get", name, make=False)
        return super().get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """See `Store.list`."""
        self._enter("list", folder, make=False)
        return super().list(folder)

    def delete(self, name: str) -> None:
        """See `Store.delete`."""
        self._enter("delete", name, make=False)
        super().delete(name)

    def _enter(self, verb: str, name: str, *, make: bool) -> None:
        if self._open and (not make or self._root.is_dir()):
            return
        with self._mapped(verb, name):
            if self._root.exists() and not self._root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "This is a file, not a directory", str(self._root))
            if make:
                self._root.mkdir(parents=True, exist_ok=True)
            # Until there is a directory, the empty memory store set in __init__ answers.
            if self._root.is_dir():
                self._backend = LocalStore(str(self._root))
                self._open = True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
