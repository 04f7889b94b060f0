"""The live view: one line at the bottom of the terminal, below whatever the script prints.

The script writes straight to the terminal; nothing of its output passes through us. The bottom line is
kept free by the terminal itself (a scroll region, as package managers do for their progress bars), so
the script's lines scroll above it.
"""

from __future__ import annotations

import math
import os
from typing import TextIO

from barograph.model.manifest import Heartbeat

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_MIN_ROWS = 5


class LiveView:
    """Draws the state of a run at the bottom of a terminal.

    Args:
        terminal: Where to; must be a terminal.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._size: os.terminal_size | None = None

    def open(self) -> None:
        """Keep the bottom line free."""
        size = os.get_terminal_size(self._terminal.fileno())
        if size.lines < _MIN_ROWS:
            return
        self._size = size
        # One line feed first: if the cursor stood on the last line, its text moves up out of our way.
        self._write(f"\n{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}\x1b[1A")

    def draw(self, line: str) -> None:
        """Show `line`, cut to the width of the terminal."""
        size = self._fitted()
        if size is None:
            return
        text = line[: size.columns - 1]
        self._write(f"{_SAVE}\x1b[{size.lines};1H\x1b[2K\x1b[7m{text}\x1b[0m{_RESTORE}")

    def _fitted(self) -> os.terminal_size | None:
        """Return the size that is drawn for, after fitting it to a terminal that has changed; None: do not draw."""
        if self._size is not None and os.get_terminal_size(self._terminal.fileno()) != self._size:
            self.close()
            self.open()
        return self._size

    def close(self) -> None:
        """Give the whole terminal back to the script's output."""
        if self._size is None:
            return
        rows = self._size.lines
        self._write(f"{_SAVE}\x1b[{rows};1H\x1b[2K\x1b[1;{rows}r{_RESTORE}")
        self._size = None

    def _write(self, text: str) -> None:
        # In one piece, so that what the script writes at the same time does not fall in between.
        self._terminal.write(text)
        self._terminal.flush()


def status_line(heartbeats: list[Heartbeat], open_findings: int) -> str:
    """Return the state of a run in one line: step, loss, time a step, cost of capture, open findings.

    Args:
        heartbeats: The last of each worker.
        open_findings: How many findings are open.
    """
    if not heartbeats:
        return " barograph  waiting for the first step"
    lead = max(heartbeats, key=lambda beat: beat.step)
    parts = [f"step {lead.step}"]
    if not math.isnan(lead.loss):
        parts.append(f"loss {lead.loss:.4g}")
    if not math.isnan(lead.step_secs):
        parts.append(f"{_duration(lead.step_secs)} a step")
    parts.append(f"capture {lead.cost.share:.1%}")
    if len(heartbeats) > 1:
        parts.append(f"{len(heartbeats)} workers")
    dropped = sum(beat.dropped_steps for beat in heartbeats)
    if dropped:
        parts.append(f"{dropped} steps dropped")
    parts.append("1 finding open" if open_findings == 1 else f"{open_findings} findings open")
    return " barograph  " + " · ".join(parts)


def _duration(secs: float) -> str:
    return f"{secs * 1000:.1f} ms" if secs < 1 else f"{secs:.2f} s"
