"""What the bench asks of a tool that logs numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Log(Protocol):
    """An open log. Each module here has `open_log(directory)`, which returns one."""

    def one(self, value: float, step: int) -> None:
        """Log one number, called "loss", the way the tool's guide shows."""

    def several(self, values: Mapping[str, float], step: int) -> None:
        """Log several numbers of one step in one call, where the tool has such a call."""

    def close(self) -> None:
        """Write what is left."""

    def kept(self) -> int:
        """Return how many points can be read back, after closing."""
