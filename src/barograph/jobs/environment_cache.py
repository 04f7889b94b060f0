"""The environments that jobs of a machine share: which of them are in use, and which are deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is deleted there
    _flock: Callable[[int, int], None] | None = None
else:
    _flock = fcntl.flock

MOST_BYTES = 50 * 2**30
"""Environments above this are deleted, the longest unused first."""
MOST_SECS = 30 * 86400.0
"""An environment that no job used for so long is deleted."""
_USED, _SIZE = "barograph-used", "barograph-size.txt"
_GONE = ".gone"
_held: dict[Path, int] = {}


def hold(place: Path) -> bool:
    """Mark an environment as in use until this process ends; return whether it is there."""
    if place in _held:
        return place.exists()
    try:
        file = os.open(place / _USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return place.exists()  # of another user: only its owner deletes it
    try:
        if _flock is not None:
            _flock(file, fcntl.LOCK_SH)  # waits while another process deletes it
        if os.fstat(file).st_ino == os.stat(place / _USED).st_ino:
            os.utime(file)
            _held[place] = file
            return True
    except OSError:
        pass
    os.close(file)
    return False


def prune(
    cache: Path, *, most_bytes: int = MOST_BYTES, most_secs: float = MOST_SECS, now_unix: float | None = None
) -> list[str]:
    """Delete environments that are too many or too old and that no process uses; return their names.

    Args:
        cache: Directory of the environments.
        most_bytes: Size of those that may stay.
        most_secs: Time since the last use of those that may stay.
        now_unix: The time; None: now.
    """
    for rest in cache.glob(f".*{_GONE}"):
        shutil.rmtree(rest, ignore_errors=True)
    now = time.time() if now_unix is None else now_unix
    known = sorted(((_used_unix(place), place) for place in cache.iterdir() if (place / "pyvenv.cfg").is_file()),
                   reverse=True)
    removed, room = [], most_bytes
    for used_unix, place in known:
        size_bytes = _size_bytes(place)
        if (now - used_unix > most_secs or size_bytes > room) and _removed(place):
            removed.append(place.name)
        else:
            room -= size_bytes
    return removed


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there. Renamed first: what still writes into it is not in the way."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        gone = path.with_name(f".{uuid.uuid4().hex}{_GONE}")
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _removed(place: Path) -> bool:
    """Remove an environment unless a process uses it; return whether it was removed."""
    if _flock is None:
        return False
    try:
        file = os.open(place / _USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(place)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _used_unix(place: Path) -> float:
    for path in (place / _USED, place):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _size_bytes(place: Path) -> int:
    """Return the size of an environment, which is measured once."""
    with contextlib.suppress(OSError, ValueError):
        return int((place / _SIZE).read_text("ascii"))
    found = 0
    for folder, _, files in os.walk(place):
        for name in files:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(folder, name)).st_blocks * 512
    with contextlib.suppress(OSError):
        (place / _SIZE).write_text(str(found), "ascii")
    return found
