"""Files below a directory. Links are followed, but never in a circle."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from barograph.errors import JobRefused
from barograph.jobs.data.listing import DataObject


def object_from_file(name: str, status: os.stat_result) -> DataObject:
    """Return the object for a file."""
    return DataObject(name, status.st_size, status.st_mtime, f"{status.st_mtime_ns:x}")


def files_below(directory: Path, skipped: list[str]) -> Iterator[DataObject]:
    """Yield the regular files below a directory, with names relative to it.

    Args:
        directory: The directory.
        skipped: Gets the names of entries that are not files.

    Raises:
        JobRefused: A directory cannot be read.
    """
    yield from _walk(directory, "", frozenset(), skipped)


def _walk(directory: Path, prefix: str, above: frozenset[tuple[int, int]], skipped: list[str]) -> Iterator[DataObject]:
    try:
        where = directory.stat()
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise JobRefused(f"A directory of the data cannot be read: {error.strerror} ({directory}).") from error
    identity = where.st_dev, where.st_ino
    if identity in above:
        return
    for entry in entries:
        name = prefix + entry.name
        try:
            status = entry.stat()
        except OSError:
            skipped.append(name)  # it has gone, or is a link that leads nowhere
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(directory / entry.name, f"{name}/", above | {identity}, skipped)
        elif stat.S_ISREG(status.st_mode):
            yield object_from_file(name, status)
        else:
            skipped.append(name)
