"""Copy mode: all objects of an instance, in a directory that appears when it is complete."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from barograph.errors import BarographError, JobError, StoreDenied, StoreFull
from barograph.jobs.data.listing import DataObject
from barograph.jobs.data.local_files import object_from_file
from barograph.jobs.data.object_cache import ObjectCache, stamp
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress, Tally
from barograph.jobs.data.settings import DeliverySettings
from barograph.model.one_line import quoted

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_COPIED_BYTES = 64 * 2**20
_JOIN_SECS = 5.0
_MODE = 0o444


def copy_objects(
    objects: Sequence[DataObject], directory: Path, *, reader: ObjectReader, cache: ObjectCache, is_remote: bool,
    settings: DeliverySettings, tally: Tally, progress: Callable[[DeliveryProgress], None], stop: threading.Event,
    cancelled: threading.Event,
) -> None:
    """Copy objects into a directory, which they replace when all are there. If this fails, nothing is left.

    Args:
        objects: The objects, in the order of copying.
        directory: The directory.
        reader: Reads the objects.
        cache: Cached objects.
        is_remote: The objects are in a bucket.
        settings: Number of threads.
        tally: Gets the counts.
        progress: Called in this thread.
        stop: Set when the copying ends early; the reader must wait for it.
        cancelled: Ends the copying with `DeliveryCancelled`.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    for left in directory.parent.glob(f".{directory.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    part = directory.with_name(f".{directory.name}.part-{secrets.token_hex(4)}")
    try:
        with _disk_errors(tally.channel, directory):
            _check_room(objects, directory.parent, cache, tally)
            _make_directories(objects, part)
        work = _Work(objects, part, reader, cache, is_remote, tally, stop)
        work.run(settings, progress, cancelled)
        with _disk_errors(tally.channel, directory):
            _install(part, directory)
    finally:
        stop.set()
        shutil.rmtree(part, ignore_errors=True)


def _check_room(objects: Sequence[DataObject], place: Path, cache: ObjectCache, tally: Tally) -> None:
    free = shutil.disk_usage(place).free
    needed = sum(item.size_bytes for item in objects)
    if needed > free:
        needed -= sum(item.size_bytes for item in objects if cache.has(item))
    if needed > free:
        raise StoreFull(f"Channel {tally.channel} needs {needed / 1e9:.3g} GB, and the disk has {free / 1e9:.3g} GB "
                        f"left. Free some space, use :lazy or :pipe, or split the data with :sharded ({place}).")


def _make_directories(objects: Sequence[DataObject], part: Path) -> None:
    part.mkdir()
    for folder in sorted({item.name.rpartition("/")[0] for item in objects}):
        (part / folder).mkdir(parents=True, exist_ok=True)


def _install(part: Path, directory: Path) -> None:
    """Move the complete copy to its place; replace what an earlier attempt left there."""
    try:
        part.rename(directory)
    except OSError:
        old = directory.with_name(f"{part.name}-old")
        directory.rename(old)
        part.rename(directory)
        shutil.rmtree(old)


@contextlib.contextmanager
def _disk_errors(channel: str, directory: Path) -> Iterator[None]:
    try:
        yield
    except BarographError:
        raise
    except FileExistsError as error:
        raise JobError(f"Channel {channel} has two objects whose names are the same on this file system "
                       f"({error.filename2 or error.filename}).") from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull(f"The disk is full: channel {channel} cannot be copied. Free some space, use :lazy or "
                            f":pipe, or split the data with :sharded ({directory}).") from error
        raise StoreDenied(f"Channel {channel} cannot be copied: {error.strerror or error} "
                          f"({error.filename or directory}).") from error


class _Large:
    """An object that several threads copy in parts."""

    def __init__(self, item: DataObject, parts: int) -> None:
        self.item, self.left = item, parts
        self.lock = threading.Lock()
        self.handle: int | None = None
        self.was_cached: bool | None = None

    def __del__(self) -> None:
        # Not earlier: a thread that is still waiting for its part must not write to another file of this number.
        if self.handle is not None:
            os.close(self.handle)


class _Work:
    """The objects of one delivery, and the threads that copy them."""

    def __init__(
        self, objects: Sequence[DataObject], part: Path, reader: ObjectReader, cache: ObjectCache, is_remote: bool,
        tally: Tally, stop: threading.Event,
    ) -> None:
        self._part, self._reader, self._cache, self._tally, self._stop = part, reader, cache, tally, stop
        self._is_remote = is_remote
        self._tasks = self._all_tasks(objects)
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._ended = threading.Semaphore(0)

    def run(
        self, settings: DeliverySettings, progress: Callable[[DeliveryProgress], None], cancelled: threading.Event,
    ) -> None:
        """Copy all objects; report the progress until the end."""
        threads = [threading.Thread(target=self._run_thread, name="barograph-copy", daemon=True)
                   for _ in range(max(1, min(settings.at_once, self._tally.objects)))]
        left = len(threads)
        try:
            for thread in threads:
                thread.start()
            while left:
                left -= self._ended.acquire(timeout=settings.progress_secs)
                if cancelled.is_set():
                    raise DeliveryCancelled(f"The delivery of channel {self._tally.channel} was cancelled.")
                if self._error is not None:
                    raise self._error
                if left:
                    progress(self._tally.progress())
            progress(self._tally.progress())
        finally:
            self._stop.set()
            for thread in threads:
                if thread.ident is not None:
                    # A request that does not answer may take a minute; its thread writes nothing any more.
                    thread.join(_JOIN_SECS)

    def _all_tasks(self, objects: Sequence[DataObject]) -> Iterator[Callable[[], None]]:
        # Here, in one of the threads: it may have to wait for the store.
        self._reader.choose_parts()
        for item in objects:
            parts = list(self._reader.parts(item)) if self._is_remote else []
            if len(parts) < 2:
                yield functools.partial(self._copy, item)
                continue
            large = _Large(item, len(parts))
            for start, end in parts:
                yield functools.partial(self._copy_part, large, start, end)

    def _run_thread(self) -> None:
        try:
            with _disk_errors(self._tally.channel, self._part):
                while not self._stop.is_set():
                    with self._lock:
                        task = next(self._tasks, None)
                    if task is None:
                        return
                    task()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the threads were started
            with self._lock:
                self._error = self._error or error
            self._stop.set()
        finally:
            self._ended.release()

    def _copy(self, item: DataObject) -> None:
        target = f"{self._part}/{item.name}"
        if not self._cache.take(item, target):
            if self._is_remote:
                self._fetch(item, target)
            else:
                self._copy_file(item, target)
        self._tally.add(size_bytes=item.size_bytes, objects=1)

    def _fetch(self, item: DataObject, target: str) -> None:
        data = self._reader.read(item, 0, item.size_bytes) if item.size_bytes else memoryview(b"")
        if self._stop.is_set():
            return
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            _write(handle, data, 0)
            stamp(handle, item)
        finally:
            os.close(handle)
        self._cache.keep(item, target)

    def _copy_file(self, item: DataObject, target: str) -> None:
        source = self._reader.path(item)
        try:
            with open(source, "rb", buffering=0) as file:
                is_shared = self._cache.clone(str(source), target)
                if not is_shared:
                    self._copy_bytes(file.fileno(), target, item.size_bytes)
                self._reader.check(item, object_from_file(item.name, os.fstat(file.fileno())))
        except FileNotFoundError as error:
            if os.path.exists(source):
                raise
            raise JobError(f"{quoted(item.name)} was deleted after the job listed its data. Submit the job again "
                           f"({source}).") from error
        stamp(target, item)
        if not is_shared:
            self._cache.keep(item, target)

    def _copy_bytes(self, source: int, target: str, size_bytes: int) -> None:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            at = 0
            while at < size_bytes and not self._stop.is_set():
                copied = _copy_range(source, handle, at, min(_COPIED_BYTES, size_bytes - at))
                if not copied:
                    return  # it has become shorter, which the caller notices
                at += copied
        finally:
            os.close(handle)

    def _copy_part(self, large: _Large, start: int, end: int) -> None:
        target = f"{self._part}/{large.item.name}"
        with large.lock:
            if large.was_cached is None:
                large.was_cached = self._cache.take(large.item, target)
                if not large.was_cached:
                    large.handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        if not large.was_cached:
            data = self._reader.read(large.item, start, end)
            assert large.handle is not None
            if not self._stop.is_set():
                _write(large.handle, data, start)
        self._tally.add(size_bytes=end - start)
        with large.lock:
            large.left -= 1
            is_last = not large.left
        if is_last and not self._stop.is_set():
            if large.handle is not None:
                stamp(target, large.item)
                self._cache.keep(large.item, target)
            self._tally.add(objects=1)


def _write(handle: int, data: memoryview, start: int) -> None:
    while data:
        written = os.pwrite(handle, data, start)
        data, start = data[written:], start + written


def _copy_range(source: int, target: int, at: int, count: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, count, at, at)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
    data = os.pread(source, min(count, 2**20), at)
    return os.pwrite(target, data, at) if data else 0
