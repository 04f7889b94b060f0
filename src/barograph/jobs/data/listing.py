"""The objects of a channel at one time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from barograph.jobs.data.channel import is_url


class DataObject(NamedTuple):
    """One object, a file or an object of a bucket.

    Attributes:
        name: Path within the channel, with "/" as separator.
        size_bytes: Size.
        modified_unix: Time of the last change.
        version: ETag, or the time of the last change in nanoseconds; "" if unknown.
    """

    name: str
    size_bytes: int
    modified_unix: float
    version: str = ""


@dataclass(frozen=True)
class DataListing:
    """The objects of a channel, sorted by name.

    Attributes:
        root: Directory or URL where the names start.
        objects: The objects.
        skipped: Entries that are not files: pipes, devices, links that lead nowhere.
    """

    root: str
    objects: tuple[DataObject, ...]
    skipped: tuple[str, ...] = ()

    @property
    def is_remote(self) -> bool:
        """Whether the objects are in a bucket."""
        return is_url(self.root)

    @cached_property
    def total_bytes(self) -> int:
        """Size of all objects."""
        return sum(item.size_bytes for item in self.objects)

    @cached_property
    def fingerprint(self) -> str:
        """A string that changes when an object is added, changed, renamed or deleted."""
        digest = hashlib.blake2b(digest_size=16)
        for item in self.objects:
            line = f"{item.name}\0{item.size_bytes}\0{item.version or item.modified_unix}\0"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the listing as `listing_from_json` reads it."""
        return {"root": self.root, "objects": [list(item) for item in self.objects], "skipped": list(self.skipped),
                "fingerprint": self.fingerprint, "total_bytes": self.total_bytes}


def listing_from_json(value: Mapping[str, Any]) -> DataListing:
    """Return the listing of `DataListing.to_json`."""
    return DataListing(value["root"], tuple(DataObject(*item) for item in value["objects"]), tuple(value["skipped"]))
