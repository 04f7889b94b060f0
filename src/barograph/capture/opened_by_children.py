"""The files that child processes open to read, mostly the workers of data loaders.

A child appends the path of each file to an in-memory file of this process, which reads it. A forked child inherits the
file; other children find it by an environment variable. Without such files (Linux has them), children are not recorded.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from typing import Any

from barograph.machine.descriptors import Descriptor

OPENED_VARIABLE = "BAROGRAPH_OPENED"
"""Environment variable with the file in which child processes report what they open."""

_MOST_BYTES = 2**20


class Spool:
    """The in-memory file that child processes write to.

    Attributes:
        above: File that this process writes to as a child; None: it is not a child, or cannot.
    """

    def __init__(self) -> None:
        self.above = _opened(os.environ.get(OPENED_VARIABLE, ""))
        self._file = _new_file()
        self._read_bytes = 0
        self._former = os.environ.get(OPENED_VARIABLE)
        if self._file is not None:
            os.environ[OPENED_VARIABLE] = f"/proc/{os.getpid()}/fd/{self._file.number}"
            _spools.add(self)
            _watch_forks()

    def report(self, path: str) -> None:
        """Report a file that this process opened to its parent."""
        if self.above is not None and self.above.is_ours:
            with contextlib.suppress(OSError):
                os.write(self.above.number, os.fsencode(path) + b"\0")

    def take(self) -> list[str]:
        """Return the paths that children have written since the last call."""
        if self._file is None or not self._file.is_ours:
            return []
        with contextlib.suppress(OSError):
            # The file position is shared with the writers.
            data = os.pread(self._file.number, _MOST_BYTES, self._read_bytes)
            whole = data[:data.rfind(b"\0") + 1]
            self._read_bytes += len(whole)
            return [os.fsdecode(path) for path in whole.split(b"\0") if path]
        return []

    def stop(self) -> None:
        """Stop reading; later calls do nothing."""
        _spools.discard(self)
        file, self._file = self._file, None
        if file is not None:
            if os.environ.get(OPENED_VARIABLE) == f"/proc/{os.getpid()}/fd/{file.number}":
                if self._former is None:
                    del os.environ[OPENED_VARIABLE]
                else:
                    os.environ[OPENED_VARIABLE] = self._former
            file.close()
        above, self.above = self.above, None
        if above is not None:
            above.close()

    def goes_on_in_child(self) -> None:
        """Convert to the state of a forked child, which reports to its parent."""
        self.above, self._file = self._file, None


def _new_file() -> Descriptor | None:
    if sys.platform != "linux":
        return None
    try:
        import fcntl

        file = Descriptor(os.memfd_create("barograph-opened", os.MFD_CLOEXEC))
        # Each writer needs its own file position.
        fcntl.fcntl(file.number, fcntl.F_SETFL, fcntl.fcntl(file.number, fcntl.F_GETFL) | os.O_APPEND)
        return file
    except (ImportError, OSError, AttributeError):
        return None


def _opened(place: str) -> Descriptor | None:
    if not place.startswith("/proc/"):
        return None
    try:
        # If the process is gone or its number is reused, the path does not exist or is another file: then write
        # nothing.
        if "/memfd:barograph-opened" not in os.readlink(place):
            return None
        return Descriptor(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
    except OSError:
        return None


_spools: weakref.WeakSet[Spool] = weakref.WeakSet()
_is_watching = False


def _watch_forks() -> None:
    global _is_watching
    if not _is_watching:
        _is_watching = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork(*_: Any) -> None:
    for spool in list(_spools):
        spool.goes_on_in_child()
    _spools.clear()
