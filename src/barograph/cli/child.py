"""The command under `barograph run`: started with our bootstrap on its path, and otherwise left alone.

It keeps the terminal, the standard streams, the working directory and the process group. Signals that
reach us and not it are passed on; how it ends is how we end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from barograph import capture
from barograph.errors import SettingsError
from barograph.model.launch import LAUNCH_VARIABLE, Launch

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


class Child:
    """A started command.

    Args:
        command: As typed.
        launch: What its Python processes are to record.

    Raises:
        SettingsError: There is no such file or program, or it may not be run.
    """

    def __init__(self, command: Sequence[str], launch: Launch) -> None:
        environment = {**os.environ, LAUNCH_VARIABLE: launch.to_text()}
        paths = [str(_BOOTSTRAP), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if command[0].endswith(".py") and not os.path.isfile(command[0]):
            raise SettingsError(f"There is no script to run at {command[0]}.")
        try:
            self._process = subprocess.Popen(full_command(command), env=environment)
        except FileNotFoundError:
            raise SettingsError(f'There is no program "{command[0]}" to run.') from None
        except OSError as error:
            raise SettingsError(f'"{command[0]}" cannot be run: {error.strerror}.') from error
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        """Pass signals on from here."""
        for name in _PASSED_ON:
            number = getattr(signal, name, None)
            if number is not None:
                self._former[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take signals for ourselves again. A command that still runs then (we failed) goes on by itself."""
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def wait(self, patience_secs: float) -> bool:
        """Return whether it has ended, waiting at most so long."""
        try:
            self._process.wait(patience_secs)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def exit_code(self) -> int:
        """Its exit code once it has ended; minus the signal's number where one killed it."""
        return int(self._process.returncode)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        # What is typed at the terminal reaches every process of the foreground, the child as well as us.
        if signal.Signals(number).name in _FROM_THE_TERMINAL and _in_foreground():
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def end_like(exit_code: int) -> None:
    """End this process as a child ended: with its exit code, or by the signal that killed it."""
    sys.stdout.flush()
    sys.stderr.flush()
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
