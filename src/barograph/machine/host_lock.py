"""A lock that the processes of one machine share, and that nobody can leave behind."""

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
except ImportError:  # Windows has none: there every process takes the lock
    _flock: Callable[[int, int], None] | None = None
else:
    _flock = fcntl.flock


_PATTERN = "barograph-" + "[0-9a-f]" * 24 + ".lock"
_MOST_REMOVED = 100


class HostLock:
    """Held by one process of a machine at a time; the system lets it go when that process ends, however it does.

    Args:
        name: What is locked, any text.
        folder: Where its file lies; None: the machine's folder for such.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:24]
        self._path = (folder or Path(tempfile.gettempdir())) / f"barograph-{digest}.lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Return whether this process holds the lock, now or since before; never waits.

        Where there is no place for its file, everybody holds it: what is done twice is better than not at all.
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
            # Whoever held it may have removed the file between the two lines above.
            if os.fstat(file).st_ino == os.stat(self._path).st_ino:
                self._file = file
                _remove_abandoned(self._path)
                return True
        except OSError:
            pass
        os.close(file)
        return False

    def release(self) -> None:
        """Let go of it, and take its file away."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(file)


def _remove_abandoned(mine: Path) -> None:
    """Take away files of locks beside ours whose processes were killed: nobody holds them, and nobody comes back."""
    with contextlib.suppress(OSError):
        for path in itertools.islice(mine.parent.glob(_PATTERN), _MOST_REMOVED):
            if path == mine or _flock is None:
                continue
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
                try:
                    _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # As it is held now: whoever opened it meanwhile sees that it is gone, and tries again.
                    if os.fstat(file).st_ino == os.stat(path).st_ino:
                        path.unlink()
                finally:
                    os.close(file)
