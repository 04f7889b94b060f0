"""Records opened files, options and printed text from the first line of a script."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.capture.opened import Listening
from barograph.capture.parsed import Parsed
from barograph.capture.printed import Printed
from barograph.model.origin import Option

_current: Surroundings | None = None


class Surroundings:
    """Records all of these, until `stop`."""

    def __init__(self) -> None:
        self._opened = Listening()
        self._printed = Printed()
        self._parsed = Parsed()
        self._is_handed_over = False

    def opened_since(self, number: int) -> tuple[Sequence[str], int]:
        """Return the files that were opened, from the one of that number on, and how many openings were beyond."""
        return self._opened.since(number)

    @property
    def is_handed_over(self) -> bool:
        """Whether somebody takes what is printed, who then has the rest, too."""
        return self._is_handed_over

    def take_printed(self) -> tuple[list[tuple[str, str]], int]:
        """Return what was printed since the last call; see `Printed.take`."""
        self._is_handed_over = True
        return self._printed.take()

    def options_seen(self) -> dict[str, Option]:
        """Return the options of the script that its parser has told of by now."""
        return dict(self._parsed.options)

    def stop(self) -> None:
        """Leave nothing behind; later calls do nothing."""
        global _current
        if _current is self:
            _current = None
        self._opened.stop()
        self._printed.stop()
        self._parsed.stop()


def begin() -> Surroundings:
    """Return what takes it down in this process, begun now where it had not begun."""
    global _current
    if _current is None:
        _current = Surroundings()
    return _current
