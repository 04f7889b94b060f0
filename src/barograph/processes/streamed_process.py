"""A process on this machine whose output is read while it runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import IO

from barograph.processes.command import Command
from barograph.processes.local_process import PIPE, STDOUT, Group, LocalProcess
from barograph.processes.process import Output

_PIECE_BYTES = 2**16
_LONGEST_LINE_BYTES = 2**20
_LINGER_SECS = 5.0
_LAST_PIECE_SECS = 0.1


class StreamedProcess(LocalProcess):
    """A `Process` on this machine. Its output is read continuously, so it is not blocked.

    A line over 1 MiB arrives in pieces. Processes that it leaves running may keep its output open: five seconds after
    its end, the output counts as complete.

    Args:
        command: What to start.
        group: Its process group.
        ends_with_us: See `LocalProcess`.
        merged: Return standard error among the lines of standard output, in the order of writing.
        most_waiting_bytes: The process is blocked once this much output is unread; None: never.
        clock: Monotonic clock in seconds.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, command: Command, *, group: Group = Group.SESSION, ends_with_us: bool = False, merged: bool = False,
        most_waiting_bytes: int | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(command, stdout=PIPE, stderr=STDOUT if merged else PIPE, group=group,
                         ends_with_us=ends_with_us)
        self._clock = clock
        self._ended_at: float | None = None
        self._came = threading.Condition()
        assert self._popen.stdout is not None
        self._out = _Reader(self._popen.stdout, self._came, most_waiting_bytes)
        self._err = _Reader(self._popen.stderr, self._came, most_waiting_bytes) \
            if self._popen.stderr is not None else None

    def poll(self) -> int | None:
        """See `Process.poll`."""
        code = super().poll()
        if code is None:
            return None
        if self._ended_at is None:
            self._ended_at = self._clock()
        with self._came:
            complete = self._came.wait_for(self._has_all, _LAST_PIECE_SECS)
        return code if complete or self._clock() - self._ended_at >= _LINGER_SECS else None

    def wait(self, timeout_secs: float | None = None) -> int | None:
        """See `Process.wait`."""
        deadline = None if timeout_secs is None else self._clock() + timeout_secs
        code = super().wait(timeout_secs)
        if code is None:
            return None
        while (code := self.poll()) is None and (deadline is None or self._clock() < deadline):
            pass  # `poll` waits for the output
        return code

    def output(self, timeout_secs: float = 0.0) -> Output:
        """Return the lines written since the last call; wait up to `timeout_secs` for some, or for the end."""
        if timeout_secs:
            with self._came:
                self._came.wait_for(lambda: self._has_all() or any(reader.has_line for reader in self._readers()),
                                    timeout_secs)
                closed = self._has_all()
            if closed:
                super().wait(timeout_secs)
        with self._came:
            over = self._ended_at is not None and self._clock() - self._ended_at >= _LINGER_SECS
            out, err = self._out.taken(over), self._err.taken(over) if self._err is not None else b""
        return Output(out, err)

    def _readers(self) -> list[_Reader]:
        return [self._out] if self._err is None else [self._out, self._err]

    def _has_all(self) -> bool:
        return all(reader.is_at_end for reader in self._readers())


class _Reader:
    """Reads a pipe to its end in a thread.

    Args:
        pipe: Closed at its end.
        came: Guards the attributes, and is notified of each piece and of the end.
        most_bytes: Stop reading while more is unread.

    Attributes:
        has_line: There is something to return.
        is_at_end: Everything has been read.
    """

    def __init__(self, pipe: IO[bytes], came: threading.Condition, most_bytes: int | None) -> None:
        self._pipe, self._came, self._most_bytes = pipe, came, most_bytes
        self._pieces: list[bytes] = []
        self._size_bytes = 0
        self.has_line = self.is_at_end = False
        threading.Thread(target=self._read, name="barograph-output", daemon=True).start()

    def taken(self, over: bool) -> bytes:
        """Return complete lines; at the end, or if it is `over`, also a last one without line break."""
        if not (self.has_line or self.is_at_end or over):
            return b""
        data = b"".join(self._pieces)
        cut = data.rfind(b"\n") + 1
        if self.is_at_end or over or len(data) - cut >= _LONGEST_LINE_BYTES:
            cut = len(data)
        self._pieces = [data[cut:]]
        self._size_bytes = len(data) - cut
        self.has_line = False
        self._came.notify_all()
        return data[:cut]

    def _read(self) -> None:
        try:
            with self._pipe:
                while piece := os.read(self._pipe.fileno(), _PIECE_BYTES):
                    with self._came:
                        self._pieces.append(piece)
                        self._size_bytes += len(piece)
                        if b"\n" in piece or self._size_bytes >= _LONGEST_LINE_BYTES:
                            self.has_line = True
                            self._came.notify_all()
                        if self._most_bytes is not None and self._size_bytes > self._most_bytes:
                            self._came.wait_for(self._has_room)
        finally:
            with self._came:
                self.is_at_end = True
                self._came.notify_all()

    def _has_room(self) -> bool:
        return self._most_bytes is None or self._size_bytes <= self._most_bytes
