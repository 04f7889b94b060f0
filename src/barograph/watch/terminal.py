"""Findings on a terminal, as people read them."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from rich.console import Console
from rich.text import Text

from barograph.watch.lasting_stream import LastingStream
from barograph.watch.notices import Event, Notice
from barograph.watch.wording import finding_lines, gone_line, indented


class TerminalNotifier:
    """Writes findings to a terminal.

    Args:
        console: Where to; None: standard error. On a console over a `LastingStream`, as that is, it goes deaf where
            nobody reads any more, and the watching goes on.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=cast(TextIO, LastingStream(sys.stderr)), highlight=False)

    def notify(self, notice: Notice) -> None:
        """Write a few lines."""
        # Soft wrap leaves the width to the terminal, so that a piped line stays one line.
        self._console.print(text_of(notice), soft_wrap=True)


def text_of(notice: Notice) -> Text:
    """Return the notice as lines for a terminal."""
    finding = notice.finding
    if finding is None or notice.event is Event.ACTION:
        return Text.assemble(("barograph ", "bold"), notice.text)
    if notice.event is Event.CLOSED:
        return gone_line(finding)
    return Text("\n").join(indented(finding_lines(finding)))
