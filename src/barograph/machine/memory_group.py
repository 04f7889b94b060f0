"""A control group on Linux: contains processes and all that they start, and may limit their memory.

Source: kernel documentation, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_PAUSE_SECS = 0.02
_LIMITS = ("memory.max", "memory.limit_in_bytes")
_NO_LIMIT_BYTES = 2**60


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group of its own, of version 1 or 2.

    Attributes:
        path: Its folder.
    """

    path: Path

    def create(self, limit_bytes: int | None) -> None:
        """Create the group, or set the limit of an existing one.

        Args:
            limit_bytes: Memory of its processes together; None: no limit.

        Raises:
            OSError: This is not allowed.
        """
        with contextlib.suppress(FileExistsError):
            self.path.mkdir()
        if limit_bytes is None:
            return
        if (self.path / "memory.max").exists():
            self._write("memory.max", limit_bytes)
            for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
                with contextlib.suppress(OSError):
                    self._write(name, value)
            return
        # The limit of memory and swap together must never be below that of memory: where it is still lower, the first
        # of these fails, and where it is absent, the second.
        for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
            with contextlib.suppress(OSError):
                self._write(name, limit_bytes)
        self._write("memory.limit_in_bytes", limit_bytes)

    @property
    def procs(self) -> Path:
        """A process that writes 0 into this file joins the group."""
        return self.path / "cgroup.procs"

    def was_out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of the group because of the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                found = re.search(r"^oom_kill (\d+)", (self.path / name).read_text("ascii"), re.MULTILINE)
                if found:
                    return int(found[1]) > 0
        return False

    def remove(self, *, patience_secs: float) -> bool:
        """Kill the processes of the group and of groups within it, and remove it. Return whether it is gone."""
        deadline = time.monotonic() + patience_secs
        while self.path.exists():
            groups = [Path(folder) for folder, _, _ in os.walk(self.path, topdown=False)]
            for group in groups:
                _kill(group)
            try:
                for group in groups:
                    group.rmdir()
            except OSError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_PAUSE_SECS)
        return True

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(str(value), encoding="ascii")


def _kill(group: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text("ascii").split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


def memory_group(name: str, proc: Path = Path("/proc/self")) -> MemoryGroup | None:
    """Return the control group of that name below the one of this process; None if none can be created there.

    Nothing is created. Limits of this process hold for the new group, too.

    Args:
        name: Name of its folder.
        proc: Folder of this process in the proc file system.
    """
    try:
        mine = (proc / "cgroup").read_text("utf-8").splitlines()
        mounts = [line.split(" ") for line in (proc / "mountinfo").read_text("utf-8").splitlines()]
    except OSError:
        return None
    for line in mine:
        _, controllers, path = line.split(":", 2)
        is_second = not controllers
        if not is_second and "memory" not in controllers.split(","):
            continue
        for root, mount in _mounted(mounts, second=is_second):
            own = mount / os.path.relpath(path, root) if path.startswith(root) else mount
            parent = _parent_of_groups(own, mount) if is_second else own
            if parent is not None and _is_writable(parent):
                return MemoryGroup(parent / name)
    return None


def _mounted(mounts: list[list[str]], *, second: bool) -> list[tuple[str, Path]]:
    """Return the root and the mount point of each hierarchy that may control memory."""
    found = []
    for fields in mounts:
        kind, _, options = fields[fields.index("-") + 1:][:3]
        if kind == ("cgroup2" if second else "cgroup") and (second or "memory" in options.split(",")):
            found.append((fields[3], Path(fields[4].replace("\\040", " "))))
    return found


def _parent_of_groups(own: Path, top: Path) -> Path | None:
    """Return the nearest group of version 2 that may have children with a limit.

    A group with processes cannot, so that is seldom the own one. A limit in between would be escaped: then none is.
    """
    for group in (own, *own.parents):
        try:
            if "memory" in (group / "cgroup.subtree_control").read_text("ascii").split():
                return group
        except OSError:
            return None
        if group == top or _has_limit(group):
            return None
    return None


def _has_limit(group: Path) -> bool:
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            return int((group / name).read_text("ascii")) < _NO_LIMIT_BYTES
    return False


def _is_writable(group: Path) -> bool:
    return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
