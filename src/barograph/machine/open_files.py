"""Files that a process and its descendants have open for reading, or mapped. Linux only.

This finds files opened by C libraries (HDF5, Arrow, LMDB, safetensors), unless they are opened and closed between two
polls.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from barograph.machine.data_paths import DataPaths

_FIRST_SECS, _LONGEST_SECS = 1.0, 30.0
_MOST_PROCESSES = 64
_MOST_BYTES = 8 * 2**20
_ACCESS = 0o3
_DELETED = " (deleted)"


class OpenFiles:
    """Polls the open files of a process, less often the longer it runs.

    Args:
        pid: Process ID.
        clock: Returns the seconds of a monotonic clock.
        proc: Path of procfs.
    """

    def __init__(self, pid: int, *, clock: Callable[[], float], proc: Path = Path("/proc")) -> None:
        self._pid = pid
        self._clock = clock
        self._proc = proc
        self._paths = DataPaths()
        self._known: set[str] = set()
        self._pause_secs = _FIRST_SECS
        self._due = clock()

    def look(self) -> list[str]:
        """Return new files; empty if the last poll was too recent."""
        if self._clock() < self._due:
            return []
        self._due = self._clock() + self._pause_secs
        self._pause_secs = min(_LONGEST_SECS, self._pause_secs * 1.5)
        new = {path for pid in self._processes() for path in (*self._opened(pid), *self._mapped(pid))} - self._known
        self._known |= new
        return sorted(path for path in new if self._paths.may_be_sampled(path))

    def _processes(self) -> list[int]:
        """Return the process and its descendants, without those in other sessions, such as ours."""
        session = self._session(self._pid)
        found = [self._pid]
        for pid in found:
            found += [child for child in self._children(pid) if self._session(child) == session]
            if len(found) >= _MOST_PROCESSES:
                break
        return found[:_MOST_PROCESSES]

    def _children(self, pid: int) -> Iterator[int]:
        with contextlib.suppress(OSError, ValueError):
            for task in os.listdir(self._proc / str(pid) / "task"):
                yield from map(int, (self._proc / str(pid) / "task" / task / "children").read_text().split())

    def _session(self, pid: int) -> str:
        with contextlib.suppress(OSError, IndexError):
            # After the name in parentheses, which may contain anything: state, parent, group, session.
            return (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[3]
        return ""

    def _opened(self, pid: int) -> Iterator[str]:
        folder = self._proc / str(pid)
        with contextlib.suppress(OSError):
            for number in os.listdir(folder / "fd"):
                with contextlib.suppress(OSError, ValueError):
                    path = os.readlink(folder / "fd" / number)
                    if path.startswith("/") and not path.endswith(_DELETED) and _reads(folder / "fdinfo" / number):
                        yield path

    def _mapped(self, pid: int) -> Iterator[str]:
        """Yield files mapped for reading: not programs, and not shared writable ones."""
        found: set[str] = set()
        others: set[str] = set()
        with contextlib.suppress(OSError), (self._proc / str(pid) / "maps").open("rb") as file:
            for line in file.read(_MOST_BYTES).splitlines():
                parts = line.split(None, 5)
                if len(parts) == 6 and parts[5].startswith(b"/"):
                    rights, path = parts[1], os.fsdecode(parts[5])
                    is_other = b"x" in rights or (b"w" in rights and b"s" in rights) or path.endswith(_DELETED)
                    (others if is_other else found).add(path)
        yield from found - others


def _reads(info: Path) -> bool:
    for line in info.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & _ACCESS == os.O_RDONLY
    return False
