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
        """Return the opened files from that index on, and the number of further openings."""
        return self._opened.since(number)

    @property
    def is_handed_over(self) -> bool:
        """Whether the output is passed to a writer, which then gets the rest, too."""
        return self._is_handed_over

    def take_printed(self) -> tuple[list[tuple[str, str]], int]:
        """Return the output since the last call; see `Printed.take`."""
        self._is_handed_over = True
        return self._printed.take()

    def options_seen(self) -> dict[str, Option]:
        """Return the options that the script's parser has parsed so far."""
        return dict(self._parsed.options)

    def stop(self) -> None:
        """Remove all hooks; later calls do nothing."""
        global _current
        if _current is self:
            _current = None
        self._opened.stop()
        self._printed.stop()
        self._parsed.stop()


def begin() -> Surroundings:
    """Return this process's recorder of surroundings, started now if necessary."""
    global _current
    if _current is None:
        _current = Surroundings()
    return _current
