"""Keeps Barograph's errors out of the user's training."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from types import CodeType, FrameType

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_MAX_PROBLEMS = 50


class BarographWarning(UserWarning):
    """Barograph could not do something; training continues."""


class Guard:
    """Turns an error of ours into one warning per cause, at the user's line.

    Every hook and wrapper runs inside it. With `strict`, the error is raised in the script instead.

    Attributes:
        lock: Held by the integration that currently records.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.lock = threading.RLock()
        self._problems: dict[str, tuple[str, int]] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Each problem so far, as one sentence with its count."""
        return tuple(
            text if times == 1 else f"{text} ({times} times)" for text, times in list(self._problems.values())
        )

    def caught(self, error: Exception, doing: str) -> None:
        """Handle an error of ours that occurred while `doing` something.

        Raises:
            Exception: `error` itself, if the guard is strict, or if a signal handler of the script raised it while our
                code ran.
        """
        if self.strict or _from_signal_handler(error):
            raise error
        kind, origin = type(error).__name__, _origin(error)
        # The message may differ each time; the code position and the exception type do not.
        self.report(f"{doing} failed: {kind}: {error} [{origin}]", cause=f"{kind} [{origin}]")

    def note(self, problem: str) -> None:
        """Store a message in the run without a warning."""
        self._problems.setdefault(problem, (problem, 1))

    def report(self, problem: str, *, cause: str = "", outcome: str = "Training goes on.") -> None:
        """Store a problem in the run, and warn the first time.

        Args:
            problem: One sentence.
            cause: Problems with the same cause are counted together. "": the sentence itself.
            outcome: Consequence for the training, appended to the warning.
        """
        cause = cause or problem
        if cause in self._problems:
            first, times = self._problems[cause]
            self._problems[cause] = first, times + 1
            return
        if len(self._problems) >= _MAX_PROBLEMS:
            return
        self._problems[cause] = problem, 1
        frame = _user_frame()
        message = f"Barograph: {problem.rstrip('.')}. {outcome}".rstrip()
        # A script that turns warnings into errors must not die of one of ours: print it instead.
        try:
            warnings.warn_explicit(message, BarographWarning, *_place(frame))
        except BarographWarning:
            with contextlib.suppress(OSError, ValueError):
                print(message, file=sys.stderr)


def _from_signal_handler(error: Exception) -> bool:
    """Return whether the script's own signal handler raised this: Python calls it between any two lines."""
    handlers = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a handler; None if it is not a Python function."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = handler if hasattr(handler, "__code__") else getattr(handler, "__func__", None)
    if function is None and callable(handler):
        function = getattr(type(handler).__call__, "__func__", type(handler).__call__)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _origin(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _user_frame() -> FrameType | None:
    """Return the innermost frame that is neither ours nor a framework's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and "site-packages" not in name and not name.startswith("<"):
            return frame
        frame = frame.f_back
    return None


def _place(frame: FrameType | None) -> tuple[str, int]:
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("barograph", 0)
