"""Safe use of our file descriptors: a script may close them and open a file with the same number."""

from __future__ import annotations

import contextlib
import os

_STANDARD = 2


class Descriptor:
    """A file descriptor that this process opened.

    Its number is above the standard streams: if these are closed, the next opened file gets their numbers, and
    would receive the output of the script.

    Args:
        number: The descriptor; it is closed if another one replaces it.

    Attributes:
        number: The descriptor to use.
    """

    def __init__(self, number: int) -> None:
        self.number = above_standard(number)
        self._identity = _identity(self.number)

    @property
    def is_ours(self) -> bool:
        """Whether it still is the file that was opened: the script may have closed it and opened another."""
        try:
            return _identity(self.number) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close it if it is still ours."""
        if self.is_ours:
            with contextlib.suppress(OSError):
                os.close(self.number)


def above_standard(number: int) -> int:
    """Return a descriptor of the same file above the standard streams, and close the old one."""
    if number > _STANDARD:
        return number
    import fcntl  # not on Windows, where sockets are not file descriptors

    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
    os.close(number)
    return moved


def _identity(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino
