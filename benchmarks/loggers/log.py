"""The interface of a tool that logs numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Log(Protocol):
    """An open log. Each module here has `open_log(directory)`, which returns one."""

    def one(self, value: float, step: int) -> None:
        """Log one number named "loss", as shown in the tool's guide."""

    def several(self, values: Mapping[str, float], step: int) -> None:
        """Log several numbers of one step in one call, if the tool has such a call."""

    def close(self) -> None:
        """Write what is left."""

    def kept(self) -> int:
        """Return the number of points that can be read back, after closing."""
