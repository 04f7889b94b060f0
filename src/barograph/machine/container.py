"""How much memory the container has that this runs in: what the machine has beyond it is none of its business."""

from __future__ import annotations

from pathlib import Path

_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Of the two versions of control groups: limit, use, and of that what is kept of files and may be dropped."""
_NO_LIMIT_BYTES = 2**60
"""The first version writes a number beyond all memory where there is no limit."""


class Container:
    """The control group of this process, as Linux shows it.

    Args:
        folder: Where it shows it.
    """

    def __init__(self, folder: Path = Path("/sys/fs/cgroup")) -> None:
        self._folder = folder

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes in use and those there may be; None where nothing is limited."""
        for limit, use, statistics, dropped in _FILES:
            try:
                limit_bytes = int((self._folder / limit).read_text(encoding="ascii"))
                used = int((self._folder / use).read_text(encoding="ascii"))
                lines = (self._folder / statistics).read_text(encoding="ascii").splitlines()
            except (OSError, ValueError):  # "max" is no number, either
                continue
            if limit_bytes >= _NO_LIMIT_BYTES:
                return None
            cached = next((int(line.split()[1]) for line in lines if line.startswith(f"{dropped} ")), 0)
            return max(0, used - cached), limit_bytes
        return None
