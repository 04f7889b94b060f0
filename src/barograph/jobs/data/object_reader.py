"""Reads objects of a listing: repeats while the store cannot be reached, and notices when an object has changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from barograph.errors import JobError, ObjectNotFound, StoreUnavailable
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.local_files import object_from_file
from barograph.jobs.data.progress import DeliveryCancelled, Tally
from barograph.jobs.data.settings import DeliverySettings
from barograph.model.one_line import quoted
from barograph.store.base import Ranged
from barograph.store.failures import NoRanges


class ObjectReader:
    """Reads objects of one channel. Threads may share it.

    Args:
        listing: The objects as they must be.
        settings: Times of the attempts, and the largest part.
        tally: Gets the bytes, and the reason while it waits.
        cancelled: Ends each waiting read with `DeliveryCancelled`.
        clock: Seconds, which never go back.
    """

    def __init__(
        self, listing: DataListing, settings: DeliverySettings, tally: Tally, cancelled: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listing, self._settings, self._tally, self._cancelled = listing, settings, tally, cancelled
        self._clock = clock
        self._store: Ranged | None = None
        self._part_bytes: float = settings.part_bytes
        self._has_chosen = False
        if listing.is_remote:
            store = settings.open_store(listing.root)
            assert isinstance(store, Ranged)
            self._store = store

    def path(self, item: DataObject) -> Path:
        """Return the path of an object of a local channel."""
        return Path(self._listing.root, item.name)

    def parts(self, item: DataObject) -> Iterator[tuple[int, int]]:
        """Yield start and end of the parts in which an object is read. An empty object has none."""
        start = 0
        while start < item.size_bytes:
            end = int(min(item.size_bytes, start + self._part_bytes))
            yield start, end
            start = end

    def choose_parts(self) -> None:
        """Read objects as a whole from now on if the store cannot read parts of them."""
        large = next((item for item in self._listing.objects if item.size_bytes > self._part_bytes), None)
        if self._store is None or large is None or self._has_chosen:
            return
        try:
            self._remote(large, 0, 1)
        except NoRanges:
            self._part_bytes = float("inf")
        except ObjectNotFound:
            return  # reading it will name it
        self._has_chosen = True

    def read(self, item: DataObject, start: int, end: int) -> memoryview:
        """Return the bytes of an object from `start` up to `end`.

        Raises:
            JobError: The object differs from the listing.
            StoreError: The store fails, and repeating did not help.
            DeliveryCancelled: The delivery was cancelled.
        """
        try:
            data, now = self._remote(item, start, end) if self._store is not None else self._local(item, start, end)
        except (ObjectNotFound, FileNotFoundError) as error:
            raise JobError(f"{quoted(item.name)} was deleted after the job listed its data. Submit the job again "
                           f"({self._listing.root}).") from error
        self.check(item, now)
        if len(data) != end - start:
            raise StoreUnavailable(f"{quoted(item.name)} came incompletely: {len(data)} of {end - start} bytes "
                                   f"({self._listing.root}).")
        self._tally.add(fetched_bytes=end - start)
        return data

    def check(self, item: DataObject, now: DataObject) -> None:
        """Raise `JobError` if an object differs from the listing."""
        if item.version and now.version:
            same = item.version == now.version
        else:
            same = int(item.modified_unix) == int(now.modified_unix)
        if not same or item.size_bytes != now.size_bytes:
            raise JobError(f"{quoted(item.name)} changed after the job listed its data ({item.size_bytes} bytes then, "
                           f"{now.size_bytes} now). Submit the job again when nothing writes there "
                           f"({self._listing.root}).")

    def _remote(self, item: DataObject, start: int, end: int) -> tuple[memoryview, DataObject]:
        assert self._store is not None
        whole = start == 0 and end == item.size_bytes
        deadline, pause = self._clock() + self._settings.retry_secs, self._settings.first_pause_secs
        try:
            while True:
                if self._cancelled.is_set():
                    raise DeliveryCancelled("The delivery was cancelled.")
                try:
                    part = self._store.read(item.name) if whole else self._store.read(item.name, start, end)
                    return part.data, DataObject(*part.info)
                except StoreUnavailable as error:
                    if self._clock() >= deadline:
                        raise
                    self._tally.wait(str(error))
                self._cancelled.wait(pause)
                pause = min(2 * pause, self._settings.longest_pause_secs)
        finally:
            self._tally.wait("")

    def _local(self, item: DataObject, start: int, end: int) -> tuple[memoryview, DataObject]:
        with open(self.path(item), "rb", buffering=0) as file:
            data = os.pread(file.fileno(), end - start, start)
            now = object_from_file(item.name, os.fstat(file.fileno()))
        return memoryview(data), now
