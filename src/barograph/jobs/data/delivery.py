"""Brings a channel to an instance."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import BarographError
from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.copying import copy_objects
from barograph.jobs.data.lazy import lazy_directory
from barograph.jobs.data.listing import DataListing
from barograph.jobs.data.mounts import stale_mounts, unmount
from barograph.jobs.data.object_cache import ObjectCache, trim
from barograph.jobs.data.object_names import check_names
from barograph.jobs.data.object_reader import ObjectReader
from barograph.jobs.data.pipes import Pipes
from barograph.jobs.data.progress import DeliveryCancelled, DeliveryProgress, Tally
from barograph.jobs.data.settings import USUAL, DeliverySettings
from barograph.jobs.data.sharding import objects_for


@dataclass(frozen=True, slots=True)
class Delivery:
    """A channel that the script can read.

    Attributes:
        channel: The channel.
        directory: Where the script finds it. In pipe mode the pipes are beside it: `<directory>_<epoch>`.
        objects: Number of objects of this instance; in pipe mode, in each epoch.
        size_bytes: Their size.
    """

    channel: Channel
    directory: Path
    objects: int
    size_bytes: int
    _tally: Tally

    @property
    def failure(self) -> BarographError | None:
        """First error since the script started: data changed or cannot be read. A pipe then stays open, without data.

        The end of the `with` block raises it, if nothing else is being raised.
        """
        return self._tally.failure

    @property
    def fetched_bytes(self) -> int:
        """Bytes read from the source so far; not those that were cached."""
        return self._tally.fetched_bytes

    @property
    def opened_epochs(self) -> int:
        """Number of the last epoch whose pipe was opened, plus one; 0 if none was."""
        return self._tally.opened_epochs


@contextlib.contextmanager
def deliver(
    channel: Channel, listing: DataListing, directory: Path, *, index: int, count: int, cache: Path,
    progress: Callable[[DeliveryProgress], None], cancelled: threading.Event, settings: DeliverySettings = USUAL,
) -> Iterator[Delivery]:
    """Bring the data of a channel to a directory before the block, and take it away after it if it is not a copy.

    Args:
        channel: The channel.
        listing: Its objects.
        directory: The directory. In copy mode, its content is replaced.
        index: Number of this instance, from 0.
        count: Number of instances.
        cache: Directory of cached objects, on the same file system. Several deliveries may use it at once.
        progress: Called while data is copied, and in pipe mode while the store cannot be reached (from another thread).
        cancelled: Set by the caller to end the delivery early.
        settings: Limits and times.

    Raises:
        JobRefused: A name of an object cannot be a file.
        DeliveryCancelled: `cancelled` was set. Nothing is left.
        JobError: An object changed or was deleted after the listing; or the directory cannot be lazy.
        StoreUnavailable: The store could not be reached for `settings.retry_secs`.
        StoreFull: The disk is full.
        StoreDenied: The data cannot be read, or the directory cannot be written.
    """
    check_names(channel.name, listing)
    if cancelled.is_set():
        raise DeliveryCancelled(f"The delivery of channel {channel.name} was cancelled.")
    for mount in stale_mounts(directory):
        unmount(mount)
    objects = objects_for(channel, listing, index=index, count=count, epoch=settings.first_epoch)
    tally = Tally(channel.name, len(objects), sum(item.size_bytes for item in objects))
    stop = threading.Event()
    delivery = Delivery(channel, directory, tally.objects, tally.total_bytes, tally)
    with contextlib.ExitStack() as stack:
        if channel.mode is Mode.COPY:
            # Each instance begins elsewhere, so instances with one cache share the work.
            first = 0 if channel.sharded else index * len(objects) // count
            copy_objects([*objects[first:], *objects[:first]], directory,
                         reader=ObjectReader(listing, settings, tally, stop), cache=ObjectCache(cache, listing),
                         is_remote=listing.is_remote, settings=settings, tally=tally, progress=progress, stop=stop,
                         cancelled=cancelled)
            stack.callback(trim, cache, settings.cache_bytes)
        elif channel.mode is Mode.LAZY:
            stack.enter_context(lazy_directory(channel.name, listing, objects, directory, cache, settings, tally))
            stack.callback(trim, cache, settings.cache_bytes)
        else:
            reader = ObjectReader(listing, settings, tally, stop)
            stack.enter_context(Pipes(channel, listing, directory, index, count, reader, settings, tally, progress,
                                      stop))
        yield delivery
    if tally.failure is not None:
        raise tally.failure
