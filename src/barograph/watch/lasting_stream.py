"""A stream of text whose reader may go away: a closed pipe, a terminal that was hung up."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TextIO


class LastingStream:
    """Writes to a stream as long as somebody reads it, and into the void from then on; it never raises.

    What watches a training, and what hands on its exit code, must not end because nobody listens any more.

    Args:
        stream: Where to; None, as Python has it for a stream that was closed before the process began: nowhere.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    @property
    def gone(self) -> bool:
        """Whether what is written reaches nobody."""
        return self._stream is None

    @property
    def encoding(self) -> str:
        """Of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write; return how many letters it took."""
        with self._lock:
            if self._stream is not None:
                try:
                    self._stream.write(text)
                except (OSError, ValueError):
                    self._leave(self._stream)
        return len(text)

    def flush(self) -> None:
        """Pass on what waits."""
        with self._lock:
            if self._stream is not None:
                try:
                    self._stream.flush()
                except (OSError, ValueError):
                    self._leave(self._stream)

    def isatty(self) -> bool:
        """Whether it leads to a terminal that is still there."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def fileno(self) -> int:
        """Return the number of its file.

        Raises:
            OSError: There is none, or nobody reads any more.
        """
        if self._stream is None:
            raise OSError("nobody reads this stream any more")
        return self._stream.fileno()

    def _leave(self, stream: TextIO) -> None:
        self._stream = None
        silence(stream)


def silence(stream: TextIO) -> None:
    """Lead a stream that nobody reads into the void: what it still holds must not fail again when we end."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        void = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(void, number)
        finally:
            os.close(void)
