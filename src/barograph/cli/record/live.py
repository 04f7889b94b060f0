"""The live view: one line at the bottom of the terminal, below whatever the script prints.

The script writes straight to the terminal; nothing of its output passes through us. The bottom line is
kept free by the terminal itself (a scroll region, as package managers do for their progress bars), so
the script's lines scroll above it. A terminal that goes away ends the view and nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Protocol

from barograph.model.manifest import Heartbeat
from barograph.watch.figures import count

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_MIN_ROWS = 5
_GAP = " · "
_OWNER = " barograph  "


class Terminal(Protocol):
    """Stream of the view."""

    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


def can_be_drawn_on(terminal: Terminal) -> bool:
    """Return whether the terminal knows how to keep a line free; one that is dumb shows our signs as letters."""
    return terminal.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class LiveView:
    """Draws the state of a run at the bottom of a terminal.

    Args:
        terminal: Where to; must be a terminal.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._size: os.terminal_size | None = None

    def open(self) -> None:
        """Keep the bottom line free."""
        size = self._size_now()
        if size is None or size.lines < _MIN_ROWS:
            return
        self._size = size
        # One line feed first: if the cursor stood on the last line, its text moves up out of our way.
        self._write(f"\n{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}\x1b[1A")

    def draw(self, parts: Sequence[str]) -> None:
        """Show the parts, as many as the terminal is wide for."""
        size = self._fitted()
        if size is None:
            return
        # One column stays free: a terminal may wrap as soon as the last one is written to.
        self._write(f"{_SAVE}\x1b[{size.lines};1H\x1b[2K\x1b[7m{line_of(parts, size.columns - 1)}\x1b[0m{_RESTORE}")

    def close(self) -> None:
        """Give the whole terminal back to the script's output."""
        if self._size is None:
            return
        rows, self._size = self._size.lines, None
        self._write(f"{_SAVE}\x1b[{rows};1H\x1b[2K\x1b[1;{rows}r{_RESTORE}")

    def _fitted(self) -> os.terminal_size | None:
        """Return the size that is drawn for, after fitting it to a terminal that has changed; None: do not draw."""
        if self._size is not None and self._size_now() != self._size:
            self.close()
            self.open()
        return self._size

    def _size_now(self) -> os.terminal_size | None:
        try:
            return os.get_terminal_size(self._terminal.fileno())
        except (OSError, ValueError):
            return None

    def _write(self, text: str) -> None:
        try:
            # In one piece, so that what the script writes at the same time does not fall in between.
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):
            self._size = None


def line_of(parts: Sequence[str], width: int) -> str:
    """Return one line of the parts, from the first on as many as fit whole; the first is cut where it must be.

    Example:
        >>> line_of(["2 problems", "step 1200", "loss 0.25"], 36)
        ' barograph  2 problems · step 1200'
    """
    line = (_OWNER + parts[0])[:max(0, width)]
    for part in parts[1:]:
        if len(line) + len(_GAP) + len(part) > width:
            break
        line += _GAP + part
    return line


def status(heartbeats: Sequence[Heartbeat], open_problems: int) -> list[str]:
    """Return the state of a run in a few words each, what matters most first.

    Args:
        heartbeats: The last of each worker.
        open_problems: How many problems are open.
    """
    if not heartbeats:
        return ["waiting for the first step"]
    lead = max(heartbeats, key=lambda beat: beat.step)
    parts = [count(open_problems, "problem"), f"step {lead.step}"]
    if not math.isnan(lead.loss):
        parts.append(f"loss {lead.loss:.4g}")
    dropped = sum(beat.dropped_steps for beat in heartbeats)
    if dropped:
        parts.append(f"{dropped} steps dropped")
    if not math.isnan(lead.step_secs):
        parts.append(f"{_duration(lead.step_secs)} a step")
    if not lead.cost.too_short:
        parts.append(f"recording cost {lead.cost.share:.1%}")
    if len(heartbeats) > 1:
        parts.append(f"{len(heartbeats)} workers")
    return parts


def _duration(secs: float) -> str:
    return f"{secs * 1000:.1f} ms" if secs < 1 else f"{secs:.2f} s"
