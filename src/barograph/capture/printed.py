"""A copy of what this process writes to Python's standard output and error.

The stream objects stay the same; only their `write` is wrapped and records the text. So output, its order, buffering
and terminal detection do not change. Output that bypasses these streams (C code, child processes, `sys.stdout.buffer`)
is not recorded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_CHARS = 2**20
"""Maximum of waiting characters; further ones are omitted and counted."""

OUT, ERR = "out", "err"


class Printed:
    """Copies printed text, until `stop`."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, str]] = deque()
        self._chars = 0
        self._left_out = 0
        self._undo: list[Callable[[], None]] = []
        self._listens = True
        for name, stream in ((OUT, sys.stdout), (ERR, sys.stderr)):
            if stream is not None:
                self._copy(name, stream)

    def take(self) -> tuple[list[tuple[str, str]], int]:
        """Return the output since the last call, in order, by stream; and the number of omitted characters."""
        waiting = self._waiting
        found: list[tuple[str, list[str]]] = []
        while waiting:
            name, text = waiting.popleft()
            self._chars -= len(text)
            if found and found[-1][0] == name:
                found[-1][1].append(text)
            else:
                found.append((name, [text]))
        left_out, self._left_out = self._left_out, 0
        return [(name, "".join(texts)) for name, texts in found], left_out

    def stop(self) -> None:
        """Restore the streams."""
        self._listens = False
        while self._undo:
            self._undo.pop()()

    def _copy(self, name: str, stream: Any) -> None:
        original = stream.write

        def write(text: str) -> Any:
            written = original(text)
            if self._listens and text.__class__ is str:
                if self._chars < MOST_CHARS:
                    self._chars += len(text)
                    self._waiting.append((name, text))
                else:
                    self._left_out += len(text)
            return written

        try:
            before = vars(stream).get("write")
            stream.write = write
        except (AttributeError, TypeError):
            return  # a custom stream with read-only attributes

        def put_back() -> None:
            if vars(stream).get("write") is write:
                if before is None:
                    del stream.write
                else:
                    stream.write = before

        self._undo.append(put_back)
