"""Detects every way this process can end, so that a recording is always closed."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, cast

from barograph.capture.trace import leave_out_our_frames
from barograph.errors import EXIT_STOPPED, TrainingStopped


class Closing(Protocol):
    """Something to close at the end of the process."""

    def failed(self, kind: type[BaseException], error: BaseException | None) -> None:
        """Note the exception that ends the script."""

    def close(self) -> None:
        """Record how the process ended; later calls do nothing."""


class ProcessEnd:
    """Detects the end of the process while something needs closing.

    Args:
        current: Returns the object to close; None: none.
        after_fork: Called in every forked child.
    """

    def __init__(self, current: Callable[[], Closing | None], after_fork: Callable[[], None]) -> None:
        self._current = current
        self._after_fork = after_fork
        self._replaced: Callable[..., Any] | None = None
        self._finalizer: Any = None
        self._forks_heard = False
        self._processes_heard = False

    def watch(self) -> None:
        """Install the hooks."""
        if not self._forks_heard:
            self._forks_heard = True
            os.register_at_fork(after_in_child=self._after_fork)
        # atexit runs last in, first out: functions that the script registers later still run while we record.
        atexit.register(self._at_exit)
        if self._replaced is None:
            self._replaced, sys.excepthook = sys.excepthook, self._uncaught
        self._watch_multiprocessing()

    def forget(self) -> None:
        """Remove the hooks. If another hook was installed over ours, ours stays but does nothing."""
        atexit.unregister(self._at_exit)
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None
        if sys.excepthook == self._uncaught:
            sys.excepthook, self._replaced = cast("Callable[..., Any]", self._replaced), None

    def _watch_multiprocessing(self) -> None:
        """Detect the end of a multiprocessing process, which ends without atexit, or after its exception is gone."""
        if "multiprocessing.util" not in sys.modules:
            return
        from multiprocessing import util

        self._finalize()
        if not self._processes_heard:
            self._processes_heard = True
            # A forked process loses earlier registrations.
            util.register_after_fork(self, ProcessEnd._finalize)

    def _finalize(self) -> None:
        from multiprocessing.util import Finalize

        # Called while the exception of the process's target propagates.
        self._finalizer = Finalize(None, self._close_raising, exitpriority=0)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        current = self._current()
        if current is not None and not _is_interactive():
            current.failed(kind, error)
        if issubclass(kind, TrainingStopped) and not _is_interactive():
            _last_words(f"Barograph stopped this training: {error}")
            # An exception from a hook replaces the original one at exit, and the script's exit handlers still run.
            raise SystemExit(EXIT_STOPPED)
        leave_out_our_frames(error)
        return (self._replaced or sys.__excepthook__)(kind, error, trace)

    def _close_raising(self) -> None:
        current = self._current()
        if current is not None:
            kind, error, _ = sys.exc_info()
            if kind is not None:
                current.failed(kind, error)
            current.close()

    def _at_exit(self) -> None:
        current = self._current()
        if current is not None:
            # If the script replaced our hook, this is where the exception can still be found.
            error = getattr(sys, "last_value", None)
            if error is not None and not _is_interactive():
                current.failed(type(error), error)
            current.close()
            if type(error) is KeyboardInterrupt and not _is_interactive():
                _end_by_sigint()


def _end_by_sigint() -> None:
    """Have Python end this process by SIGINT, as it does after a Ctrl-C that nothing caught.

    It forgets that at any text executed later, such as the `eval` of a named tuple in a module that closing imports.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")


def _last_words(text: str) -> None:
    """Write to standard error; if it has no reader, the error must not determine how the process ends."""
    try:
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Python flushes the stream again at exit, and would exit with its own error.
        sys.stderr = cast("Any", None)


def _is_interactive() -> bool:
    return hasattr(sys, "ps1")
