"""Pipe mode: one named pipe per epoch, with the bytes of all objects one after another."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path

from barograph.errors import BarographError, JobError, JobRefused
from barograph.jobs.data.channel import Channel
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress, Tally
from barograph.jobs.data.settings import DeliverySettings
from barograph.jobs.data.sharding import objects_for

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PIPE_BYTES = 2**20
_AHEAD_BYTES = 64 * 2**20
_JOIN_SECS = 5.0


def pipe_problem() -> str:
    """Return why this machine has no named pipes; "" if it has."""
    return "" if hasattr(os, "mkfifo") else "This system has no named pipes. Use the mode copy."


class Pipes:
    """The pipes of one channel, and the threads that fill them; a context manager.

    A script may read a pipe to its end, close it earlier, or never open it. Afterwards the pipe is gone, so a script
    that opens it again fails instead of waiting for ever. If the data cannot be read, the pipe stays open without data:
    its end would look like the end of the epoch.

    Args:
        channel, listing, index, count: See `deliver`.
        directory: The pipes are `<directory>_<epoch>`.
        reader: Reads the objects.
        settings: Number of pipes and threads.
        tally: Gets the counts and the first error.
        progress: Called when the store cannot be reached.
        stop: Set at the end; the reader must wait for it.
    """

    def __init__(
        self, channel: Channel, listing: DataListing, directory: Path, index: int, count: int, reader: ObjectReader,
        settings: DeliverySettings, tally: Tally, progress: Callable[[DeliveryProgress], None], stop: threading.Event,
    ) -> None:
        self._channel, self._listing, self._directory, self._reader = channel, listing, directory, reader
        self._index, self._count, self._settings, self._tally = index, count, settings, tally
        self._progress, self._stop = progress, stop
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._next_epoch = settings.first_epoch
        self._waiting: set[Path] = set()
        self._wake_reader, self._wake_writer = -1, -1

    def __enter__(self) -> Pipes:
        if problem := pipe_problem():
            raise JobRefused(problem)
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        self._wake_reader, self._wake_writer = os.pipe()
        try:
            self._provide(self._settings.first_epoch + self._settings.epochs_ahead)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        os.close(self._wake_writer)
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        readers = []
        for path in waiting:
            # Its thread waits in `open` for a reader, or soon will.
            with contextlib.suppress(OSError):
                readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            path.unlink(missing_ok=True)
        for thread in self._threads:
            thread.join(_JOIN_SECS)
        for handle in (*readers, self._wake_reader):
            os.close(handle)

    def _provide(self, end: int) -> None:
        """Create the pipes of all epochs before `end`."""
        with self._lock:
            while self._next_epoch < end and not self._stop.is_set():
                epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
                path = self._directory.with_name(f"{self._directory.name}_{epoch}")
                path.unlink(missing_ok=True)  # of an earlier attempt
                os.mkfifo(path, 0o600)
                self._waiting.add(path)
                thread = threading.Thread(target=self._serve, args=(epoch, path), name="barograph-pipe", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, epoch: int, path: Path) -> None:
        try:
            handle = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return  # the end was faster, or the script deleted it
        try:
            with self._lock:
                if path not in self._waiting:
                    return  # the end woke this thread
                self._waiting.discard(path)
            self._tally.opened_epochs = max(self._tally.opened_epochs, epoch + 1)
            self._provide(epoch + 1 + self._settings.epochs_ahead)
            self._fill(handle, epoch)
        except DeliveryCancelled:
            pass
        except BarographError as error:
            self._fail(error)
        except OSError as error:
            self._fail(JobError(f"Channel {self._channel.name} cannot be read: {error.strerror or error} ({path})."))
        finally:
            # First the name: a reader that opens the pipe between the two would wait for ever.
            path.unlink(missing_ok=True)
            os.close(handle)

    def _fail(self, error: BarographError) -> None:
        """Note an error, and wait for the end of the delivery."""
        self._tally.fail(error)
        self._stop.wait()

    def _fill(self, handle: int, epoch: int) -> None:
        os.set_blocking(handle, False)
        if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the limit of this user for all pipes
                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._reader.choose_parts()
        objects = objects_for(self._channel, self._listing, index=self._index, count=self._count, epoch=epoch)
        with contextlib.closing(self._data(objects)) as data:
            for piece in data:
                if not self._write(handle, piece):
                    return

    def _data(self, objects: tuple[DataObject, ...]) -> Generator[memoryview, None, None]:
        """Yield the bytes of objects in order; several reads are always under way."""
        tasks = ((item, start, end) for item in objects for start, end in self._reader.parts(item))
        with _Readers(self._reader, min(self._settings.at_once, max(1, len(objects)))) as readers:
            ahead: deque[tuple[int, _Result]] = deque()
            ahead_bytes = 0
            most = 1  # the first alone, without others that delay it
            while True:
                while len(ahead) < most and (not ahead or ahead_bytes < _AHEAD_BYTES):
                    task = next(tasks, None)
                    if task is None:
                        break
                    ahead.append((task[2] - task[1], readers.start(task)))
                    ahead_bytes += task[2] - task[1]
                if not ahead:
                    return
                size_bytes, result = ahead.popleft()
                ahead_bytes -= size_bytes
                yield self._taken(result)
                most = 4 * self._settings.at_once

    def _taken(self, result: _Result) -> memoryview:
        while not result.done.wait(1.0):
            if self._stop.is_set():
                raise DeliveryCancelled("The delivery was cancelled.")
            found = self._tally.progress()
            if found.waiting:
                self._progress(found)
        if result.error is not None:
            raise result.error
        return result.data

    def _write(self, handle: int, data: memoryview) -> bool:
        """Write to a pipe. Return False if its reader is gone."""
        poll = select.poll()
        poll.register(handle, select.POLLOUT)
        poll.register(self._wake_reader, 0)  # only its end
        while data:
            try:
                data = data[os.write(handle, data):]
            except BlockingIOError:
                poll.poll()
                if self._stop.is_set():
                    raise DeliveryCancelled("The delivery was cancelled.") from None
            except BrokenPipeError:
                return False
        return True


class _Result:
    """The result of a read in another thread."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.data = memoryview(b"")
        self.error: BaseException | None = None


_Task = tuple[DataObject, int, int]


class _Readers:
    """Threads that read; a context manager. They end with it, after the read they are at."""

    def __init__(self, reader: ObjectReader, threads: int) -> None:
        self._reader = reader
        self._tasks: queue.SimpleQueue[tuple[_Task, _Result] | None] = queue.SimpleQueue()
        self._is_over = False
        self._threads = [threading.Thread(target=self._run, name="barograph-pipe-read", daemon=True)
                         for _ in range(threads)]

    def __enter__(self) -> _Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for _thread in self._threads:
            self._tasks.put(None)

    def start(self, task: _Task) -> _Result:
        result = _Result()
        self._tasks.put((task, result))
        return result

    def _run(self) -> None:
        while (work := self._tasks.get()) is not None and not self._is_over:
            (item, start, end), result = work
            try:
                result.data = self._reader.read(item, start, end)
            except BaseException as error:  # noqa: BLE001 - it is raised where the data is needed
                result.error = error
            result.done.set()
