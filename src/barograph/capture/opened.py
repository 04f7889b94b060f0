"""The files that this process opens to read, recorded in `open`.

`builtins.open` and `io.open`, which are one function, are replaced by an object that calls it and records the path.
Like a built-in function, the object does not become a method when it is an attribute of a class. Files opened by C
libraries (HDF5, Arrow) are not recorded.
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
    """The files opened for reading so far.

    Attributes:
        spool: File in which child processes report what they open.
        paths: Paths of the first ones, without duplicates.
        known: Their names as passed to `open`.
        beyond: Number of further openings after the limit.
    """

    def __init__(self) -> None:
        self.spool = Spool()
        self.paths: list[str] = []
        self.beyond = 0
        self.known: set[Any] = set()
        self._passed_over: set[Any] = set()
        self._data = DataPaths()

    def note(self, file: Any) -> None:
        """Record a file by its name as passed to `open`; called after opening."""
        if file in self.known or file in self._passed_over:
            return
        path = os.fspath(file)
        if not isinstance(path, str):
            return  # bytes, which are rare
        whole = os.path.abspath(path)
        if not self._data.may_be(whole):
            if len(self._passed_over) < _MOST_PASSED_OVER:
                self._passed_over.add(file)
        elif len(self.paths) >= MOST_FILES:
            self.beyond += 1
        else:
            self.known.add(file)
            self.paths.append(whole)
            self.spool.report(whole)

    def add_children(self) -> None:
        """Add the files that child processes have opened since the last call."""
        for path in self.spool.take():
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
            except Exception:  # noqa: BLE001 - an opened file is returned even if its name is unusual
                self.let_go()
        return opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __reduce__(self) -> Any:
        return "open"

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def let_go(self) -> None:
        """Only call the function from now on."""
        self._note = _pass_over


def _pass_over(file: Any) -> None:
    """Do nothing."""


# It is pickled by reference, like the function that it replaces.
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
        """Restore `open`. If another wrapper was installed over ours, ours stays but does nothing."""
        self._ours.let_go()
        self.files.spool.stop()
        for module, original in self._places:
            if vars(module).get("open") is self._ours:
                vars(module)["open"] = original

    def since(self, number: int) -> tuple[Sequence[str], int]:
        """Return the paths from that index on, and the number of further openings."""
        self.files.add_children()
        return tuple(self.files.paths[number:]), self.files.beyond
