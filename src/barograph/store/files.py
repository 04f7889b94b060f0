"""A store of plain files in a directory. It also works in forked processes."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from barograph.store.base import Level, ObjectInfo
from barograph.store.failures import LOCAL, passing_through, store_error

_PART_BYTES = 2**20
_RANDOM_NUMBERS = 10**6
_STAMP_NANOS = 2_000_000_000
"""Coarsest resolution of file times: that of FAT is two seconds."""
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|#\d+$")
"""Invalid names: those with control characters or undecodable bytes. "#" and a number mark an unfinished file, which
remains after a crash. The number consists of the ID of the process that writes it and six random digits."""


_UNFINISHED = re.compile(r"#(\d+)$")


class FileStore:
    """A `Store` in a directory. The first write creates the directory; reading does not.

    Args:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_there = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """URL of the directory."""
        return str(self._root)

    @property
    def root(self) -> Path:
        """The directory."""
        return self._root

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        """See `Store.put`."""
        self.put_parts(name, [data] if isinstance(data, bytes | bytearray | memoryview) else data)

    def create(self, name: str, data: bytes) -> None:
        """See `Store.create`."""
        with self._mapped("create", name):
            path = self._place(name, make=True)
            with _unfinished(path) as draft:
                with draft.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
                draft.unlink()
            _sync_directory(path.parent)

    def get(self, name: str) -> memoryview:
        """See `Store.get`."""
        with self.opened(name) as file, self._mapped("get", name):
            return memoryview(file.read())

    def info(self, name: str) -> ObjectInfo:
        """See `Informed.info`."""
        with self.opened(name) as file, self._mapped("get", name):
            found = os.fstat(file.fileno())
            return ObjectInfo(name, found.st_size, found.st_mtime)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        """See `Store.list`. Skips files whose names no object can have, pipes and devices."""
        with self._mapped("list", folder):
            self._check_root()
            return sorted(_files_below(self._root / folder, f"{folder}/" if folder else "", frozenset()))

    def level(self, folder: str = "") -> Level:
        """See `Browsable.level`. Skips what `list` skips."""
        with self._mapped("list", folder):
            self._check_root()
            return _level(self._root / folder, f"{folder}/" if folder else "")

    def stamp(self, folders: Sequence[str]) -> str:
        """See `Stamped.stamp`. Writes end with a rename, which changes the directory's time."""
        now_nanos, times, root = time.time_ns(), [], os.fspath(self._root)
        # Called for each of a hundred thousand runs, so a helper function would take longer than the call.
        with self._mapped("list", ", ".join(folders[:1])):
            for folder in folders:
                try:
                    times.append(os.stat(f"{root}/{folder}").st_mtime_ns)
                except (FileNotFoundError, NotADirectoryError):
                    times.append(0)
        # File times have a limited resolution: two changes within it look like one.
        settled = all(moment < now_nanos - _STAMP_NANOS for moment in times)
        return ",".join(f"{moment:x}" for moment in times) if settled else ""

    def delete(self, name: str) -> None:
        """See `Store.delete`."""
        with self._mapped("delete", name):
            self._place(name, make=False).unlink(missing_ok=True)

    def remove_unfinished(
        self, folders: Sequence[str], *, older_than_secs: float = 0.0,
        is_running: Callable[[int], bool] = lambda pid: False,
    ) -> int:
        """Remove the unfinished files of killed processes; return their number. Nobody may be writing there.

        Args:
            folders: Folders of the store.
            older_than_secs: Keep files written within this time, which another process may still be writing.
            is_running: Whether a process of that ID may be running; its files stay.
        """
        removed = 0
        with self._mapped("delete", ", ".join(folders[:1])):
            for folder in folders:
                for path in (self._root / folder).rglob("*#*"):
                    if (found := _UNFINISHED.search(path.name)) and path.is_file() \
                            and time.time() - path.stat().st_mtime >= older_than_secs \
                            and not is_running(int(found[1]) // _RANDOM_NUMBERS):
                        path.unlink(missing_ok=True)
                        removed += 1
        return removed

    def remove_empty_folders(self) -> None:
        """Remove the directory and those below it that have no files."""
        for folder, _, _ in os.walk(self._root, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        self._is_there = False

    def parts(self, name: str) -> Iterator[bytes]:
        """See `Streaming.parts`."""
        with self.opened(name) as file, self._mapped("get", name):
            while part := file.read(_PART_BYTES):
                yield part

    def opened(self, name: str) -> IO[bytes]:
        """See `Openable.opened`. Pipes and devices, which `list` skips, do not exist here either."""
        with self._mapped("get", name):
            path = self._place(name, make=False)
            try:
                file = open(path, "rb", opener=_opened_at_once)  # noqa: SIM115 - the caller closes it
            except IsADirectoryError as error:
                raise FileNotFoundError(errno.ENOENT, "This is a directory", error.filename) from error
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.close()
                raise FileNotFoundError(errno.ENOENT, "This is not a regular file", str(path))
            return file

    def put_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """See `Streaming.put_parts`. None of the parts is copied."""
        with passing_through(parts) as watched, self._mapped("put", name):
            path = self._place(name, make=True)
            with _unfinished(path) as draft:
                with draft.open("xb") as file:
                    file.writelines(watched)
                draft.replace(path)

    def _place(self, name: str, *, make: bool) -> Path:
        """Return the path of an object; `make` creates its parent directories."""
        self._check_root()
        parts = name.strip("/").split("/")
        if any(part in ("", ".", "..") or _UNFIT.search(part) for part in parts):
            raise ValueError("Invalid name of an object")
        path = self._root.joinpath(*parts)
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _check_root(self) -> None:
        if not self._is_there:
            if self._root.exists() and not self._root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "This is a file, not a directory", str(self._root))
            self._is_there = self._root.is_dir()

    @contextmanager
    def _mapped(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except LOCAL as error:
            raise store_error(error, verb=verb, name=name, url=self.url) from error


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Yield the path of a hidden draft beside a file; remove it if the block fails."""
    number = os.getpid() * _RANDOM_NUMBERS + secrets.randbelow(_RANDOM_NUMBERS)
    draft = path.with_name(f"{path.name}#{number}")
    try:
        yield draft
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _files_below(directory: Path, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[ObjectInfo]:
    """Yield the files in and below a directory.

    Args:
        directory: The directory; it may no longer exist.
        prefix: Prefix of the names of its files.
        above: Device and inode of the parent directories.
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
            continue  # it was removed, or is a broken link
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
            continue  # it was removed, or is a broken link
    return Level(sorted(folders), sorted(objects))


def _leads_up(link: str, directory: Path) -> bool:
    """Return whether following this link in a directory would loop."""
    here = directory.resolve()
    return Path(link).resolve() in (here, *here.parents)


def _opened_at_once(path: str, flags: int) -> int:
    # Opening a pipe would block until something writes to it.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _can_be_named(name: str) -> bool:
    return _UNFIT.search(name) is None


def _sync_directory(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        # Some file systems, mainly network file systems, do not support fsync of directories.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
