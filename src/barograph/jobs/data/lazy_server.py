"""Serves a lazy directory until its standard input ends, which is when the process that started it is gone.

    python -m barograph.jobs.data.lazy_server

The first line of standard input is the order, in JSON; standard output gets one JSON object per line.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import mfusepy

from barograph.errors import BarographError, StoreError
from barograph.jobs.data.lazy_blocks import BlockFile
from barograph.jobs.data.listing import DataListing, DataObject, listing_from_json
from barograph.jobs.data.mounts import SUBTYPE, unmount
from barograph.jobs.data.object_cache import ObjectCache
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.progress import DeliveryCancelled, Tally
from barograph.jobs.data.settings import DeliverySettings

_REPORT_SECS = 0.5
_AHEAD_BYTES = 2**16
_FOR_EVER_SECS = 86400


class LazyFiles(mfusepy.Operations):
    """The objects of a listing as a read-only file system.

    Args:
        listing: The objects.
        cache: Directory of fetched parts.
        reader: Reads the objects.
        tally: Gets the counts of the reader.
    """

    use_ns = True

    def __init__(self, listing: DataListing, cache: Path, reader: ObjectReader, tally: Tally) -> None:
        self._listing, self._reader, self._tally = listing, reader, tally
        self._cache = ObjectCache(cache, listing)
        self._files = {f"/{item.name}": item for item in listing.objects}
        self._folders = _folders(self._files)
        self._open: dict[int, BlockFile | DataObject] = {}
        self._handles = iter(range(1, sys.maxsize))
        self._lock = threading.Lock()
        self._reported_bytes, self._reported_at = 0, 0.0
        self._started_ns = time.time_ns()

    def init_with_config(self, connection: Any, configuration: Any) -> None:
        """Have the kernel read less ahead, which the script may never want; report that the directory is there."""
        connection.max_readahead = _AHEAD_BYTES
        _say(ready=True)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return the attributes of a file or directory."""
        item = self._files.get(path)
        if item is not None:
            changed_ns = int(item.modified_unix * 1e9)
            return {"st_mode": stat.S_IFREG | 0o444, "st_size": item.size_bytes, "st_nlink": 1,
                    "st_blocks": -(-item.size_bytes // 512), **_times(changed_ns)}
        if path in self._folders:
            return {"st_mode": stat.S_IFDIR | 0o555, "st_nlink": 2, **_times(self._started_ns)}
        raise mfusepy.FuseOSError(errno.ENOENT)

    def readdir(self, path: str, fh: int) -> Iterable[str]:
        """Return the names in a directory."""
        return [".", "..", *self._folders[path]]

    def open(self, path: str, flags: int) -> int:
        """Open a file. It stays what it was in the listing, or reading it fails."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise mfusepy.FuseOSError(errno.EROFS)
        item = self._files[path]
        opened: BlockFile | DataObject = item
        if self._listing.is_remote and item.size_bytes:
            opened = BlockFile(self._cache.blocks(item), item.size_bytes,
                               lambda start, end: self._reader.read(item, start, end))
        with self._lock:
            handle = next(self._handles)
            self._open[handle] = opened
        return handle

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return bytes of a file."""
        opened = self._open[fh]
        try:
            if isinstance(opened, BlockFile):
                return opened.read(offset, size)
            end = min(offset + size, opened.size_bytes)
            return bytes(self._reader.read(opened, offset, end)) if offset < end else b""
        except DeliveryCancelled:
            raise mfusepy.FuseOSError(errno.EIO) from None
        except BarographError as error:
            _say(failure=str(error), is_of_store=isinstance(error, StoreError))
            raise mfusepy.FuseOSError(errno.EIO) from error
        finally:
            self.report(_REPORT_SECS)

    def release(self, path: str, fh: int) -> int:
        """Close a file."""
        with self._lock:
            opened = self._open.pop(fh)
        if isinstance(opened, BlockFile):
            opened.close()
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """Return the size of the file system."""
        return {"f_bsize": 4096, "f_blocks": -(-self._listing.total_bytes // 4096), "f_files": len(self._files),
                "f_namemax": 255}

    def report(self, secs: float) -> None:
        """Report what was fetched, unless the last report is less than `secs` ago."""
        with self._lock:
            new, now = self._tally.fetched_bytes - self._reported_bytes, time.monotonic()
            if not new or now - self._reported_at < secs:
                return
            self._reported_bytes += new
            self._reported_at = now
        _say(fetched_bytes=new)


def _folders(files: Iterable[str]) -> Mapping[str, list[str]]:
    """Return directory to the names in it."""
    found: dict[str, list[str]] = {"/": []}
    for path in files:
        while path != "/":
            folder, _, name = path.rpartition("/")
            folder = folder or "/"
            known = folder in found
            found.setdefault(folder, []).append(name)
            if known:
                break
            path = folder
    return found


def _times(ns: int) -> dict[str, int]:
    return {"st_atime": ns, "st_mtime": ns, "st_ctime": ns, "st_uid": os.getuid(), "st_gid": os.getgid()}


def _say(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until standard input ends."""
    order = json.loads(sys.stdin.readline())
    listing, cancelled = listing_from_json(order["listing"]), threading.Event()
    tally = Tally(order["name"], len(listing.objects), listing.total_bytes)
    reader = ObjectReader(listing, DeliverySettings(retry_secs=order["retry_secs"]), tally, cancelled)
    files = LazyFiles(listing, Path(order["cache"]), reader, tally)
    directory = Path(order["directory"])

    def end_with_input() -> None:
        sys.stdin.read()
        cancelled.set()
        files.report(0.0)
        unmount(directory)
        os._exit(0)

    threading.Thread(target=end_with_input, name="barograph-end", daemon=True).start()
    # The helper of libfuse unmounts when this process is killed.
    helper = {"auto_unmount": True} if shutil.which("fusermount3") else {}
    mfusepy.FUSE(files, str(directory), foreground=True, fsname=f"barograph:{order['name']}", subtype=SUBTYPE, ro=True,
                 kernel_cache=True, attr_timeout=_FOR_EVER_SECS, entry_timeout=_FOR_EVER_SECS,
                 negative_timeout=_FOR_EVER_SECS, **helper)


if __name__ == "__main__":
    main()
