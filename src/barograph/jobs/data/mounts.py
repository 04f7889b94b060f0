"""Lazy directories that a killed process left behind."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from pathlib import Path

from barograph.processes.command import Command
from barograph.processes.run_to_end import NotCompleted, run_to_end

SUBTYPE = "barograph"
"""Type of our mounts, after "fuse."."""

_DETACH = 2
_UNMOUNT_SECS = 30.0
_MOUNTS = Path("/proc/self/mountinfo")
_DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


def mounts(directory: Path) -> list[Path]:
    """Return the lazy directories at or below a directory, the deepest first."""
    if not _MOUNTS.exists():
        return []
    top = os.path.abspath(directory)
    found = []
    for line in _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        fields = line.split(" ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if fields[fields.index("-") + 1] == f"fuse.{SUBTYPE}" and (place == top or place.startswith(f"{top}/")):
            found.append(Path(place))
    return sorted(found, key=lambda place: -len(place.parts))


def stale_mounts(directory: Path) -> list[Path]:
    """Return the lazy directories at or below a directory whose server is gone. Reading them fails."""
    return [place for place in mounts(directory) if _is_dead(place)]


def unmount(place: Path) -> None:
    """Unmount a lazy directory. Processes that have files of it open get errors when they read them.

    Raises:
        OSError: It cannot be unmounted.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "umount2") or library.umount2(os.fsencode(place), _DETACH) == 0:
        return
    number = ctypes.get_errno()
    tool = shutil.which("fusermount3") or shutil.which("fusermount")
    if number == errno.EPERM and tool is not None:
        try:
            if run_to_end(Command((tool, "-u", "-z", str(place))), timeout_secs=_UNMOUNT_SECS).exit_code == 0:
                return
        except NotCompleted:
            pass
    if number != errno.EINVAL:  # it is not mounted any more
        raise OSError(number, os.strerror(number), str(place))


def _is_dead(place: Path) -> bool:
    try:
        os.stat(place)
    except OSError as error:
        return error.errno in _DEAD
    return False
