"""Live view: one line at the bottom of the terminal, below the script's output.

The script writes directly to the terminal. The terminal keeps the bottom line free (a scroll region, as used by package
managers for progress bars), so that the script's lines scroll above it. If the terminal goes away, only the view ends.
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
    """Return whether the terminal supports scroll regions; a dumb one would print the escape sequences."""
    return terminal.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class LiveView:
    """Draws the state of a run at the bottom of a terminal.

    Args:
        terminal: Output; must be a terminal.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._size: os.terminal_size | None = None

    def open(self) -> None:
        """Reserve the bottom line."""
        size = self._size_now()
        if size is None or size.lines < _MIN_ROWS:
            return
        self._size = size
        # A line feed first: if the cursor is on the last line, its text moves up.
        self._write(f"\n{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}\x1b[1A")

    def draw(self, parts: Sequence[str]) -> None:
        """Show as many parts as fit."""
        size = self._fitted()
        if size is None:
            return
        # Leave one column free, since some terminals wrap when the last one is written.
        self._write(f"{_SAVE}\x1b[{size.lines};1H\x1b[2K\x1b[7m{line_of(parts, size.columns - 1)}\x1b[0m{_RESTORE}")

    def close(self) -> None:
        """Release the bottom line."""
        if self._size is None:
            return
        rows, self._size = self._size.lines, None
        self._write(f"{_SAVE}\x1b[{rows};1H\x1b[2K\x1b[1;{rows}r{_RESTORE}")

    def _fitted(self) -> os.terminal_size | None:
        """Return the size to draw for, after a resize of the terminal; None: do not draw."""
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
            # One write, so that the script's output cannot interleave.
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):
            self._size = None


def line_of(parts: Sequence[str], width: int) -> str:
    """Return as many parts as fit in one line; the first is cut if necessary.

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
    """Return the state of a run as short phrases, the most important first.

    Args:
        heartbeats: Last heartbeat of each worker.
        open_problems: Number of open problems.
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
