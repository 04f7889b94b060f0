"""Splits the objects of a channel among the instances, and orders them for each epoch."""

from __future__ import annotations

import hashlib

from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.watch.figures import count as counted


def share_of(
    listing: DataListing, *, index: int, count: int, epoch: int = 0, shuffle_seed: int | None = None,
) -> tuple[DataObject, ...]:
    """Return the objects of one instance in an epoch, in order.

    Every object is in exactly one share, and the sizes of two shares differ by at most one object. From epoch to epoch
    each share moves to another instance.

    Args:
        listing: All objects.
        index: Number of the instance, from 0.
        count: Number of instances.
        epoch: Number of the epoch, from 0.
        shuffle_seed: Seed of the order and of the split; None: in the order of the listing.

    Example:
        >>> listing = DataListing("/data", tuple(DataObject(name, 1, 0.0) for name in "abcde"))
        >>> [[item.name for item in share_of(listing, index=index, count=2)] for index in (0, 1)]
        [['a', 'c', 'e'], ['b', 'd']]
        >>> [[item.name for item in share_of(listing, index=index, count=2, epoch=1)] for index in (0, 1)]
        [['b', 'd'], ['a', 'c', 'e']]
    """
    objects = listing.objects
    if shuffle_seed is not None:
        objects = tuple(sorted(objects, key=lambda item: _place(item.name, shuffle_seed, epoch)))
    return objects[(index + epoch) % count::count]


def _place(name: str, seed: int, epoch: int) -> bytes:
    # A digest, not `random`: every instance, with any version of Python, must come to the same order.
    key = f"{seed}/{epoch}/{name}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(key, digest_size=16).digest()


def objects_for(
    channel: Channel, listing: DataListing, *, index: int, count: int, epoch: int = 0,
) -> tuple[DataObject, ...]:
    """Return the objects that one instance gets of a channel in an epoch, in order: its share, or all of them."""
    if not channel.sharded:
        index, count = 0, 1
    return share_of(listing, index=index, count=count, epoch=epoch, shuffle_seed=channel.shuffle_seed)


def problems_of(channel: Channel, listing: DataListing, instances: int) -> list[str]:
    """Return what is wrong with the data of a channel for this number of instances, as sentences."""
    found = []
    objects = len(listing.objects)
    if not objects:
        found.append(f"Channel {channel.name} has no files ({channel.source}).")
    elif channel.sharded and objects < instances:
        found.append(f"Channel {channel.name} has {counted(objects, 'object')} for {instances} instances, so "
                     f"{instances - objects} would get no data. Use {counted(objects, 'instance')}, or remove :sharded "
                     f"({channel.source}).")
    if objects and not listing.total_bytes and channel.mode is Mode.PIPE:
        found.append(f"Every object of channel {channel.name} is empty, so its pipes have no data ({channel.source}).")
    return found
