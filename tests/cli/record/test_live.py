"""The live line: what matters first, never wider than the terminal, and gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from barograph.cli.record.live import LiveView, can_be_drawn_on, line_of, status
from barograph.model.manifest import Cost, Heartbeat

BEAT = Heartbeat(beat=9, time_unix=0.0, step=1200, step_secs=0.0123, loss=0.25, cost=Cost(101.0, 1.0))


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A terminal of 24 lines and 40 columns, as we see it and as whoever looks at it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    # What is left in it when nobody is there to read it fails once more at its end.
    with contextlib.suppress(OSError), open(theirs, "w", encoding="utf-8") as stream:
        yield stream, ours


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return what comes from a terminal, in as many pieces as it likes, until all that is wanted is there."""
    got = b""
    while wanted not in got and select.select([terminal], [], [], 10)[0]:
        got += os.read(terminal, 4096)
    return got


def test_findings_come_first_and_the_price_last() -> None:
    assert status([BEAT], 2) == [
        "2 problems", "step 1200", "loss 0.25", "12.3 ms a step", "recording cost 1.0%",
    ]
    assert status([], 0) == ["waiting for the first step"]


def test_dropped_steps_come_before_speed() -> None:
    lost = Heartbeat(beat=9, time_unix=0.0, step=7, step_secs=0.5, dropped_steps=3)

    assert status([lost, BEAT], 1)[:4] == ["1 problem", "step 1200", "loss 0.25", "3 steps dropped"]
    assert status([lost, BEAT], 1)[-1] == "2 workers"


@pytest.mark.parametrize(("width", "line"), [
    (200, " barograph  2 findings open · step 1200 · loss 0.25"),
    (50, " barograph  2 findings open · step 1200"),
    (49, " barograph  2 findings open · step 1200"),
    (20, " barograph  2 findin"),
    (0, ""),
])
def test_a_line_never_gets_wider_than_the_terminal(width: int, line: str) -> None:
    assert line_of(["2 findings open", "step 1200", "loss 0.25"], width) == line


def test_a_terminal_that_goes_away_ends_the_view_and_nothing_else(terminal: tuple[TextIO, int]) -> None:
    stream, ours = terminal
    view = LiveView(stream)
    view.open()
    view.draw(["2 findings open", "step 1200", "loss 0.25"])
    line = b"\x1b[24;1H\x1b[2K\x1b[7m barograph  2 findings open \xc2\xb7 step 1200\x1b[0m"
    assert line in read_until(ours, line)

    os.close(ours)

    view.draw(["still there?"])
    view.close()
    view.open()
    view.close()


@pytest.mark.parametrize(("kind", "drawn"), [("xterm-256color", True), ("dumb", False), ("", False)])
def test_only_on_a_terminal_that_knows_how_a_line_is_drawn(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch, kind: str, drawn: bool
) -> None:
    if kind:
        monkeypatch.setenv("TERM", kind)
    else:
        monkeypatch.delenv("TERM", raising=False)

    assert can_be_drawn_on(terminal[0]) is drawn
