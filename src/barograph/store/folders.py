"""Explains why a folder cannot be written."""

from __future__ import annotations

import errno
from pathlib import Path

_REASONS = {
    errno.EACCES: "permission denied", errno.EPERM: "permission denied", errno.EROFS: "the disk is read-only",
    errno.ENAMETOOLONG: "its name is too long", errno.ELOOP: "its links lead in a circle",
    errno.ENOENT: "it cannot be made there",
}


def why_not_writable(folder: Path, error: BaseException | None) -> str:
    """Return why a folder cannot be created or written, as a clause; "" if unknown.

    Args:
        folder: The folder.
        error: Error of the operating system.
    """
    there = next(path for path in (folder, *folder.parents) if path == path.parent or path.exists())
    if not there.is_dir():
        return "it is a file" if there == folder else f"{there} is a file"
    return _REASONS.get(error.errno or 0, "") if isinstance(error, OSError) else ""
