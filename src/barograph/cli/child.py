"""The command under `barograph run`: started with our bootstrap on its path, and otherwise left alone.

It keeps the terminal, the standard streams, the working directory and the process group. Signals that
reach us and not it are passed on; how it ends is how we end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from barograph import capture
from barograph.errors import SettingsError
from barograph.watch.lasting_stream import silence

_BOOTSTRAP = Path(capture.__path__[0]) / "inject"
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_FROM_THE_TERMINAL = ("SIGINT", "SIGQUIT")


def full_command(command: Sequence[str]) -> list[str]:
    """Return the command as it is started: a Python file is run by this Python.

    Example:
        >>> full_command(["torchrun", "train.py"])
        ['torchrun', 'train.py']
    """
    return [sys.executable, *command] if command[0].endswith(".py") else list(command)


def check_command(command: Sequence[str]) -> None:
    """Check that there is something to run, before a place is made for its run.

    Raises:
        SettingsError: There is no such script or program, or it may not be run.
    """
    program = command[0]
    if program.endswith(".py"):
        if not os.path.isfile(program):
            raise SettingsError(f"No script at {program}.")
    elif shutil.which(program) is None:
        there = os.path.dirname(program) and os.path.exists(program)
        raise SettingsError(f'"{program}" is not an executable program.' if there else
                            f'Program not found: "{program}".')


class Child:
    """A command, started where the `with` block begins.

    Args:
        command: As typed.
        variables: Of the environment, on top of ours: they say what its Python processes are to do.
        quiet: Nothing that it prints is shown.

    Raises:
        SettingsError: It cannot be run.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], *, quiet: bool = False
    ) -> None:
        self._command = full_command(command)
        self._environment = {**os.environ, **variables}
        paths = [str(_BOOTSTRAP), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment["PYTHONPATH"] = os.pathsep.join(paths)
        self._output = subprocess.DEVNULL if quiet else None
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        """Start it, and pass signals on from here."""
        # First the signals: one that comes while the child starts must not end us and leave it behind.
        for name in _PASSED_ON:
            number = getattr(signal, name, None)
            # What we were told to ignore (by nohup, say) the child ignores, too.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._pass_on)
        try:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=self._output,
                                             stderr=self._output)
        except OSError as error:
            self._give_back_signals()
            raise SettingsError(f'Cannot run "{self._command[0]}": {error.strerror}.') from error
        for number in self._early:
            self._send(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take signals for ourselves again. A command that still runs then (we failed) goes on by itself."""
        self._give_back_signals()

    def end(self) -> None:
        """End it; what it still does is of no use."""
        self._send(signal.SIGTERM)
        self._started.wait()

    def wait(self) -> None:
        """Return when it has ended."""
        self._started.wait()

    @property
    def exit_code(self) -> int:
        """Its exit code once it has ended; minus the signal's number where one killed it."""
        return int(self._started.returncode)

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _give_back_signals(self) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        # What is typed at the terminal reaches every process of the foreground, the child as well as us.
        if signal.Signals(number).name in _FROM_THE_TERMINAL and _in_foreground():
            return
        if self._process is None:
            self._early.append(number)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._started.send_signal(number)


def end_like(exit_code: int) -> None:
    """End this process as a child ended: with its exit code, or by the signal that killed it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more; what it holds must not change our exit code.
            silence(stream)
        except AttributeError:
            pass  # a stream that was closed before we began is none
    if exit_code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
        exit_code = 128 - exit_code  # reached where the signal does not end a process
    sys.exit(exit_code)


def _in_foreground() -> bool:
    for stream in (0, 1, 2):
        with contextlib.suppress(OSError):
            if os.isatty(stream):
                return os.tcgetpgrp(stream) == os.getpgrp()
    return False
