"""The files that this process opens to read, recorded in `open`.

In the place of `builtins.open` and `io.open`, which are one function, stands an object that calls it and takes down the
path of what was opened. It is no function, and so no method either where a class keeps it as an attribute: as the
function that it stands for. What is opened by libraries in C (HDF5, Arrow) does not pass here.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

from barograph.capture.opened_by_children import Spool
from barograph.machine.data_paths import DataPaths

MOST_FILES = 1000
"""More are counted, and not named."""

_READING = frozenset(("r", "rb", "rt", "br", "tr"))
_MOST_PASSED_OVER = 10_000


class OpenedFiles:
    """The files opened to read so far.

    Attributes:
        spool: In which children say what they open.
        paths: Of the first ones, each once.
        known: What they were named to `open`.
        beyond: How often others were opened once these were full.
    """

    def __init__(self) -> None:
        self.spool = Spool()
        self.paths: list[str] = []
        self.beyond = 0
        self.known: set[Any] = set()
        self._passed_over: set[Any] = set()
        self._data = DataPaths()

    def note(self, file: Any) -> None:
        """Take down a file, as it was named to `open`; called where one was opened."""
        if file in self.known or file in self._passed_over:
            return
        path = os.fspath(file)
        if not isinstance(path, str):
            return  # bytes, which few use
        whole = os.path.abspath(path)
        if not self._data.may_be(whole):
            if len(self._passed_over) < _MOST_PASSED_OVER:
                self._passed_over.add(file)
        elif len(self.paths) >= MOST_FILES:
            self.beyond += 1
        else:
            self.known.add(file)
            self.paths.append(whole)
            self.spool.say(whole)

    def hear_children(self) -> None:
        """Take down what processes below this one have opened since the last call."""
        for path in self.spool.heard():
            if path not in self.known:
                self.note(path)


class _Open:
    """Calls `open`, and records the file."""

    __slots__ = ("__wrapped__", "_known", "_note")

    def __init__(self, original: Callable[..., Any], files: OpenedFiles) -> None:
        self.__wrapped__ = original
        self._known = files.known
        self._note = files.note

    def __call__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened = self.__wrapped__(file, mode, *args, **kwargs)
        if mode in _READING:
            try:
                # Most files are opened again and again; a number is one that is open already.
                if file not in self._known and file.__class__ is not int:
                    self._note(file)
            except Exception:  # noqa: BLE001 - a file that was opened is handed over whatever is wrong with its name
                self.let_go()
        return opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __reduce__(self) -> Any:
        return "open"

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def let_go(self) -> None:
        """Only call it from now on."""
        self._note = _pass_over


def _pass_over(file: Any) -> None:
    """Take nothing down."""


# It is pickled as the function that it stands for: by the place of that.
_Open.__module__ = "io"


class Listening:
    """Records opened files, until `stop`."""

    def __init__(self) -> None:
        self.files = OpenedFiles()
        self._ours = _Open(builtins.open, self.files)
        self._places = [(module, vars(module)["open"]) for module in (builtins, io)]
        for module, _ in self._places:
            vars(module)["open"] = self._ours

    def stop(self) -> None:
        """Put `open` back. Where somebody has put something on top of ours, ours stays as a plain passage."""
        self._ours.let_go()
        self.files.spool.stop()
        for module, original in self._places:
            if vars(module).get("open") is self._ours:
                vars(module)["open"] = original

    def since(self, number: int) -> tuple[Sequence[str], int]:
        """Return the paths from the one of that number on, and how many were beyond."""
        self.files.hear_children()
        return tuple(self.files.paths[number:]), self.files.beyond
