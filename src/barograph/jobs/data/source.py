"""Lists the objects of a channel: of a directory, a file, a pattern, or a bucket."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from barograph.errors import JobRefused, ObjectNotFound, StoreDenied, StoreUnavailable, nearest
from barograph.jobs.data.channel import Channel
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.local_files import files_below, object_from_file
from barograph.jobs.data.object_names import check_names
from barograph.jobs.data.patterns import Pattern, is_pattern, split_pattern
from barograph.store.base import Browsable, Ranged, Store
from barograph.store.failures import NO_BUCKET
from barograph.store.urls import store_from_url


def objects_of(channel: Channel, *, open_store: Callable[[str], Store] = store_from_url) -> DataListing:
    """Return the objects of a channel.

    Args:
        channel: The channel. Names are relative to a directory or prefix; else to the directory of the file, of the
            object, or of the first part of a pattern with a special character.
        open_store: Returns the store at a URL.

    Raises:
        JobRefused: The source does not exist, cannot be read, or has a name that no file can have.
        StoreUnavailable: The bucket cannot be reached.
    """
    if not channel.is_remote:
        listing = _local(channel)
    else:
        try:
            listing = _remote(channel, open_store)
        except (StoreDenied, StoreUnavailable) as error:
            if isinstance(error, StoreUnavailable) and not str(error).startswith(NO_BUCKET):
                raise
            raise JobRefused(f"Channel {channel.name}: {error}") from error
    check_names(channel.name, listing)
    return listing


def _local(channel: Channel) -> DataListing:
    path, skipped = Path(channel.source), list[str]()
    if path.is_dir():
        return DataListing(str(path), tuple(sorted(files_below(path, skipped))), tuple(skipped))
    if path.is_file():
        return DataListing(str(path.parent), (object_from_file(path.name, path.stat()),))
    if path.exists():
        raise JobRefused(f"Channel {channel.name} is neither a file nor a directory ({path}).")
    if not is_pattern(channel.source):
        raise _missing(channel, path)
    place, text = split_pattern(path.as_posix())
    if not Path(place).is_dir():
        raise _missing(channel, Path(place))
    pattern = Pattern(text)
    found = [item for item in files_below(Path(place), skipped) if pattern.matches(item.name)]
    if not found:
        raise JobRefused(f'No file of channel {channel.name} matches "{text}". {_contents(Path(place))} ({place}).')
    return DataListing(place, tuple(sorted(found)), tuple(name for name in skipped if pattern.matches(name)))


def _missing(channel: Channel, path: Path) -> JobRefused:
    """Return the error for a path that does not exist, with what its nearest parent contains."""
    there = next(parent for parent in path.parents if parent.exists())
    if not there.is_dir():
        return JobRefused(f"Channel {channel.name} does not exist: {there} is a file ({channel.source}).")
    missing = path.relative_to(there).parts[0]
    return JobRefused(f'Channel {channel.name} does not exist: there is no "{missing}" in {there}. '
                      f"{nearest(missing, _names_in(there))} ({channel.source})")


def _contents(directory: Path) -> str:
    return nearest("", _names_in(directory)).replace("There are", "The directory has", 1).rstrip(".")


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _remote(channel: Channel, open_store: Callable[[str], Store]) -> DataListing:
    url = channel.source.rstrip("/")
    found = _listed(open_store(url))
    if found:
        return DataListing(url, tuple(found))
    if is_pattern(url.partition("://")[2]):
        place, text = split_pattern(url)
        pattern = Pattern(text)
        found = [item for item in _listed(open_store(place)) if pattern.matches(item.name)]
        if found:
            return DataListing(place, tuple(found))
        raise _nothing_there(channel, place, "", open_store)
    parent, _, name = url.rpartition("/")
    if parent.endswith(":/"):
        raise JobRefused(f"Channel {channel.name} is an empty bucket ({url}).")
    store = open_store(parent)
    assert isinstance(store, Ranged)
    try:
        info = store.info(name)
    except ObjectNotFound:
        raise _nothing_there(channel, parent, name, open_store) from None
    return DataListing(parent, (DataObject(name, info.size_bytes, info.modified_unix, info.version),))


def _listed(store: Store) -> list[DataObject]:
    found = [DataObject(*info) for info in store.list()]
    # Consoles create empty objects as folders.
    folders = {name[:at] for name, *_ in found for at, letter in enumerate(name) if letter == "/"}
    return [item for item in found if item.size_bytes or item.name not in folders]


def _nothing_there(channel: Channel, place: str, name: str, open_store: Callable[[str], Store]) -> JobRefused:
    store = open_store(place)
    level = store.level() if isinstance(store, Browsable) else None
    names = [*(f"{folder}/" for folder in level.folders), *level.objects] if level else []
    there = nearest(name, names) if name else nearest("", names)
    return JobRefused(f"Channel {channel.name} does not exist: no object of {place} has this prefix. {there} "
                      f"({channel.source})")
