"""A text stream that survives the loss of its reader: a closed pipe or a closed terminal."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TextIO


class LastingStream:
    """Writes to a stream while it has a reader, and discards output afterwards; never raises.

    Processes that watch a training or forward its exit code must not end because their output has no reader.

    Args:
        stream: The stream; None (Python's value for a stream closed before the process started): output is discarded.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    @property
    def gone(self) -> bool:
        """Whether output is discarded."""
        return self._stream is None

    @property
    def encoding(self) -> str:
        """Encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write; return the number of characters."""
        with self._lock:
            if self._stream is not None:
                try:
                    self._stream.write(text)
                except (OSError, ValueError):
                    self._leave(self._stream)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with self._lock:
            if self._stream is not None:
                try:
                    self._stream.flush()
                except (OSError, ValueError):
                    self._leave(self._stream)

    def isatty(self) -> bool:
        """Whether the stream is an open terminal."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def fileno(self) -> int:
        """Return the file descriptor.

        Raises:
            OSError: There is none, or the reader is gone.
        """
        if self._stream is None:
            raise OSError("nobody reads this stream any more")
        return self._stream.fileno()

    def _leave(self, stream: TextIO) -> None:
        self._stream = None
        silence(stream)


def silence(stream: TextIO) -> None:
    """Redirect a stream without reader to the null device, so that flushing it at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        void = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(void, number)
        finally:
            os.close(void)
