"""Names of objects that become files of an instance."""

from __future__ import annotations

import os

from barograph.errors import JobRefused
from barograph.jobs.data.listing import DataListing
from barograph.model.one_line import quoted

_LONGEST_BYTES = 255


def check_names(channel: str, listing: DataListing) -> None:
    """Check that each object of a listing becomes a file of its own within a directory.

    Raises:
        JobRefused: A name leads out of the directory, is empty or too long, or a file would also be a directory.
    """
    names: set[str] = set()
    folders: set[str] = set()
    for item in listing.objects:
        problem = _problem(item.name) or ("is there twice" if item.name in names else "")
        if problem:
            raise JobRefused(f"Channel {channel} has an object whose name {problem}: {quoted(item.name)}. Rename it, "
                             f"or choose the others with a pattern ({listing.root}).")
        names.add(item.name)
        folder = item.name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for name in sorted(names & folders)[:1]:
        raise JobRefused(f"Channel {channel} has an object {quoted(name)} and objects below that name. A file cannot "
                         f"also be a directory. Rename it, or choose the others with a pattern ({listing.root}).")


def _problem(name: str) -> str:
    """Return why a name cannot be a path within a directory, in words that complete a sentence."""
    parts = name.split("/")
    if not name:
        return "is empty"
    if ".." in parts or not parts[0] or (os.name == "nt" and ("\\" in name or ":" in name)):
        return "leads out of its directory"
    if "\0" in name:
        return "contains a zero byte"
    if "" in parts or "." in parts:
        return "has an empty part"
    if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_BYTES for part in parts):
        return f"has a part of more than {_LONGEST_BYTES} bytes"
    return ""
