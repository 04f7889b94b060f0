"""A lock between processes of one machine that cannot be left behind."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: there every process gets the lock
    _flock: Callable[[int, int], None] | None = None
else:
    _flock = fcntl.flock


_PATTERN = "barograph-" + "[0-9a-f]" * 24 + ".lock"
_MOST_REMOVED = 100


class HostLock:
    """A lock that one process of a machine holds at a time. The system releases it when that process ends.

    Args:
        name: Name of the lock, any string.
        folder: Folder of its file; None: the lock folder of the machine.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:24]
        self._path = (folder or Path(tempfile.gettempdir())) / f"barograph-{digest}.lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Acquire the lock without waiting; return whether this process holds it.

        If its file cannot be created, every process gets the lock: doing a thing twice is better than not at all.
        """
        if self._file is not None:
            return True
        if _flock is None:
            return True
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError:
            return True
        try:
            _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file between the two lines above.
            if os.fstat(file).st_ino == os.stat(self._path).st_ino:
                self._file = file
                _remove_abandoned(self._path)
                return True
        except OSError:
            pass
        os.close(file)
        return False

    def release(self) -> None:
        """Release it and remove its file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(file)


def _remove_abandoned(mine: Path) -> None:
    """Remove lock files of killed processes in the same folder."""
    with contextlib.suppress(OSError):
        for path in itertools.islice(mine.parent.glob(_PATTERN), _MOST_REMOVED):
            if path == mine or _flock is None:
                continue
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
                try:
                    _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # While holding it: a process that has opened it meanwhile sees that it is gone, and tries again.
                    if os.fstat(file).st_ino == os.stat(path).st_ino:
                        path.unlink()
                finally:
                    os.close(file)
