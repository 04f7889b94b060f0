"""Stores on a disk, in memory and in a bucket, all through obstore."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from obstore.exceptions import PreconditionError
from obstore.store import LocalStore, MemoryStore

from barograph.errors import ObjectExists, ObjectNotFound, StoreUnavailable
from barograph.store.base import Level, ObjectInfo
from barograph.store.failures import FOREIGN, store_error
from barograph.store.remote_file import FETCHED_BYTES, RemoteFile

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PART_BYTES = 2**20
_UPLOADED_BYTES = 8 * 2**20
_UPLOADED_AT_ONCE = 4
_UNFINISHED_NUMBERS = 10**9
_STAMP_NANOS = 2_000_000_000
"""Longer than a step of the clock of any file system that is in use; that of FAT goes in steps of two seconds."""


class ObjectsStore:
    """A `Store` over one of obstore's."""

    def __init__(self, url: str, backend: ObjectStore) -> None:
        self._url = url
        self._backend = backend
        self._has_answered = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    @property
    def url(self) -> str:
        """Where it is."""
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
            found = [
                ObjectInfo(entry["path"], entry["size"], entry["last_modified"].timestamp())
                for batch in self._backend.list(folder or None)
                for entry in batch
            ]
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
        with self._mapped("put", name):
            self._backend.put(name, iter(parts), chunk_size=_UPLOADED_BYTES, max_concurrency=_UPLOADED_AT_ONCE)

    def opened(self, name: str) -> IO[bytes]:
        """See `Openable.opened`."""
        with self._mapped("get", name):
            head = self._backend.head(name)

        def fetch(start: int, end: int) -> bytes:
            with self._mapped("get", name):
                try:
                    found = self._backend.get(name, options={"range": (start, end), "if_match": head["e_tag"]})
                except PreconditionError as error:
                    raise StoreUnavailable(f"The object was replaced while it was read; try again ({name} in "
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

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        """See `Store.put`."""
        if isinstance(data, list | tuple):
            self.put_parts(name, data)
            return
        self._enter("put", name, make=True)
        super().put(name, data)

    def create(self, name: str, data: bytes) -> None:
        """See `Store.create`."""
        self._enter("create", name, make=True)
        super().create(name, data)
        with self._mapped("create", name):
            path = self._root / name
            _sync(path)
            _sync_directory(path.parent)

    def get(self, name: str) -> memoryview:
        """See `Store.get`."""
        self._enter("get", name, make=False)
        return super().get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """See `Store.list`. A file whose name no object can have, and what is no file, is passed over."""
        self._enter("list", folder, make=False)
        if not self._open:
            return []
        # By ourselves: obstore gives up the whole listing at one odd name, or one link that leads in a circle.
        with self._mapped("list", folder):
            return sorted(_files_below(self._root / folder, f"{folder}/" if folder else "", frozenset()))

    def level(self, folder: str = "") -> Level:
        """See `Browsable.level`. What `list` passes over is passed over here, too."""
        self._enter("list", folder, make=False)
        if not self._open:
            return Level([], [])
        with self._mapped("list", folder):
            return _level(self._root / folder, f"{folder}/" if folder else "")

    def stamp(self, folders: Sequence[str]) -> str:
        """See `Stamped.stamp`. What is put is renamed into its place, which a directory's time tells."""
        now_nanos, times, root = time.time_ns(), [], os.fspath(self._root)
        # Asked of each of a hundred thousand runs: what stands around the call would take longer than the call.
        with self._mapped("list", ", ".join(folders[:1])):
            for folder in folders:
                try:
                    times.append(os.stat(f"{root}/{folder}").st_mtime_ns)
                except (FileNotFoundError, NotADirectoryError):
                    times.append(0)
        # Clocks of file systems go in steps: what changes twice in one of them looks as if it had changed once.
        settled = all(moment < now_nanos - _STAMP_NANOS for moment in times)
        return ",".join(f"{moment:x}" for moment in times) if settled else ""

    def delete(self, name: str) -> None:
        """See `Store.delete`."""
        self._enter("delete", name, make=False)
        super().delete(name)

    def parts(self, name: str) -> Iterator[bytes]:
        """See `Streaming.parts`."""
        with self._mapped("get", name), (self._root / name).open("rb") as file:
            while part := file.read(_PART_BYTES):
                yield part

    def opened(self, name: str) -> IO[bytes]:
        """See `Openable.opened`."""
        with self._mapped("get", name):
            return (self._root / name).open("rb")

    def put_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `Streaming.put_parts`. None of the parts is copied."""
        self._enter("put", name, make=True)
        with self._mapped("put", name):
            with suppress(FileNotFoundError):
                self._backend.head(name)  # knows which names an object may have
            path = self._root / name.strip("/")
            # Called as what obstore has not written to its end yet: no listing shows it.
            unfinished = path.with_name(f"{path.name}#{secrets.randbelow(_UNFINISHED_NUMBERS)}")
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("xb") as file:
                    file.writelines(parts)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise

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


def _files_below(directory: Path, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[ObjectInfo]:
    """Yield the files in and below a directory.

    Args:
        directory: Which; it may have gone meanwhile.
        prefix: What its files' names begin with.
        above: Device and number of the directories on the way here.
    """
    try:
        entries = list(os.scandir(directory))
        where = directory.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    identity = where.st_dev, where.st_ino
    if identity in above:
        return
    for entry in entries:
        name = prefix + entry.name
        if not _can_be_named(entry.name):
            continue
        try:
            is_directory = entry.is_dir()
            status = entry.stat()
        except OSError:
            continue  # it has gone, or is a link that leads nowhere
        if is_directory:
            yield from _files_below(directory / entry.name, f"{name}/", above | {identity})
        elif stat.S_ISREG(status.st_mode):
            yield ObjectInfo(name, status.st_size, status.st_mtime)


def _level(directory: Path, prefix: str) -> Level:
    folders, objects = [], []
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return Level([], [])
    for entry in entries:
        if not _can_be_named(entry.name):
            continue
        try:
            if entry.is_file():
                objects.append(prefix + entry.name)
            elif entry.is_dir() and not (entry.is_symlink() and _leads_up(entry.path, directory)):
                folders.append(prefix + entry.name)
        except OSError:
            continue  # it has gone, or is a link that leads nowhere
    return Level(sorted(folders), sorted(objects))


def _leads_up(link: str, directory: Path) -> bool:
    """Return whether whoever walks on through this link in a directory would go round in a circle."""
    here = directory.resolve()
    return Path(link).resolve() in (here, *here.parents)


def _can_be_named(name: str) -> bool:
    # No control characters, no bytes that are no text. What obstore has not written to its end yet bears a number
    # after a "#"; after a crash it stays.
    return re.search(r"[\x00-\x1f\x7f\ud800-\udfff]|#\d+$", name) is None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_directory(path: Path) -> None:
    try:
        _sync(path)
    except OSError as error:
        # Some file systems, above all those of networks, know no such thing for a directory.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
