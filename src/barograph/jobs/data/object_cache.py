"""Objects that were copied before, shared by all deliveries on one machine.

An entry is one inode with the copies in the directories of jobs, so it costs no space while a job uses it. It is
read-only, and its time of change is that of the object: if a script nevertheless wrote to it, it is not used again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from barograph.jobs.data.listing import DataListing, DataObject

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FICLONE = 0x40049409
"""Number of Linux's request to share the blocks of another file until one of the two is written."""
_OBJECTS, _BLOCKS = "objects", "blocks"


class ObjectCache:
    """The cached objects of one listing.

    Args:
        directory: The cache. It only helps if it is on the file system of the jobs.
        listing: The objects.
    """

    def __init__(self, directory: Path, listing: DataListing) -> None:
        # Strings, not paths: of each of many small objects, making paths would take longer than writing it.
        self._directory = str(directory)
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if listing.is_remote else ""
        self._origin = f"{endpoint}\0{listing.root}\0"
        self._can_clone = fcntl is not None

    def path(self, item: DataObject, kind: str = _OBJECTS) -> str:
        """Return the path of an entry. Its name contains a digest of everything that identifies the content."""
        key = f"{self._origin}{item.name}\0{item.size_bytes}\0{item.version}\0{item.modified_unix}"
        digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        # Few directories: creating one takes as long as copying a small object.
        return f"{self._directory}/{kind}/{digest[:1]}/{digest[1:]}"

    def blocks(self, item: DataObject) -> Path:
        """Return the path of the fetched parts of an object."""
        return Path(self.path(item, _BLOCKS))

    def has(self, item: DataObject) -> bool:
        """Return whether an object is cached, with nothing written to it since."""
        return _is_intact(self.path(item), item)

    def take(self, item: DataObject, target: str) -> bool:
        """Put a cached object at an unused path. Return whether it was cached."""
        entry = self.path(item)
        if not _is_intact(entry, item):
            return False
        if self.clone(entry, target):
            stamp(target, item)
            return True
        try:
            os.link(entry, target)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EXDEV, errno.EPERM, errno.EMLINK):
                return False
            raise
        return True

    def clone(self, file: str, target: str) -> bool:
        """Copy a file by sharing its blocks until one of the two is written.

        Returns:
            Whether the file system can do that. If not, nothing is left.
        """
        if not self._can_clone:
            return False
        with open(file, "rb") as source, open(target, "xb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
            except OSError:
                os.unlink(target)
                self._can_clone = False
        return self._can_clone

    def keep(self, item: DataObject, file: str) -> None:
        """Cache the complete copy of an object. Where that is not possible, nothing is cached."""
        entry = self.path(item)
        try:
            os.link(file, entry)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(entry), exist_ok=True)
            with contextlib.suppress(OSError):
                os.link(file, entry)
        except FileExistsError:
            if not self.has(item):
                with contextlib.suppress(OSError):
                    os.unlink(entry)
                    os.link(file, entry)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EROFS, errno.EACCES, errno.ENOTSUP):
                raise


def _is_intact(entry: str, item: DataObject) -> bool:
    try:
        status = os.stat(entry)
    except OSError:
        return False
    return status.st_size == item.size_bytes and status.st_mtime_ns == _stamp(item)


def stamp(file: str | int, item: DataObject) -> None:
    """Set the time of change of a copy, a path or an open file, to that of its object."""
    os.utime(file, ns=(_stamp(item), _stamp(item)))


def _stamp(item: DataObject) -> int:
    # Whole seconds: every file system can represent them, and a write hardly ever leaves them.
    return int(item.modified_unix) * 10**9


def trim(directory: Path, most_bytes: int) -> None:
    """Delete cached objects that no job uses until at most `most_bytes` are left, the longest unused first.

    Deliveries that use the cache at the same time are not disturbed.
    """
    # Linking changes the time of the inode, so that is the time of the last use.
    unused = sorted((status.st_ctime_ns, status.st_blocks * 512, path)
                    for kind in (_OBJECTS, _BLOCKS) for path, status in _entries(directory / kind)
                    if status.st_nlink == 1)
    left = sum(size for _, size, _ in unused)
    for _, size, path in unused:
        if left <= most_bytes:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        left -= size


def _entries(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError), os.scandir(directory) as folders:
        for folder in folders:
            with contextlib.suppress(OSError), os.scandir(folder.path) as files:
                for file in files:
                    with contextlib.suppress(OSError):
                        yield file.path, file.stat()
