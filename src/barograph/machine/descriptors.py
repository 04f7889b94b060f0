"""File descriptors of ours: a script may close them, and open a file of its own under the same number."""

from __future__ import annotations

import contextlib
import os

_STANDARD = 2


class Descriptor:
    """One that this process opened.

    It lies above the standard streams: where these are closed, the next file that is opened takes their numbers, and
    what the script prints would go there.

    Args:
        number: The descriptor; it is closed where another takes its place.

    Attributes:
        number: The one to use.
    """

    def __init__(self, number: int) -> None:
        self.number = above_standard(number)
        self._identity = _identity(self.number)

    @property
    def is_ours(self) -> bool:
        """Whether it is what was opened: the script may have closed it, and opened something else."""
        try:
            return _identity(self.number) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless it is not ours any more."""
        if self.is_ours:
            with contextlib.suppress(OSError):
                os.close(self.number)


def above_standard(number: int) -> int:
    """Return a descriptor of the same file above those of the standard streams; the former is closed."""
    if number > _STANDARD:
        return number
    import fcntl  # not on Windows, where sockets have other numbers

    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
    os.close(number)
    return moved


def _identity(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino
