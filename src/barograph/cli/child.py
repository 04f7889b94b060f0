"""The command under `barograph run`, started with our bootstrap on its path and otherwise unchanged.

It keeps the terminal, the standard streams, the working directory and the process group. We forward signals that reach
only us, and exit like the command.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from barograph import capture
from barograph.errors import SettingsError
from barograph.processes.command import Command
from barograph.processes.forwarded_signals import ForwardedSignals
from barograph.processes.local_process import DEVNULL, Group, LocalProcess
from barograph.watch.lasting_stream import silence

_BOOTSTRAP = Path(capture.__path__[0]) / "inject"


def full_command(command: Sequence[str]) -> list[str]:
    """Return the command line; a Python file runs with this Python.

    Example:
        >>> full_command(["torchrun", "train.py"])
        ['torchrun', 'train.py']
    """
    return [sys.executable, *command] if command[0].endswith(".py") else list(command)


def check_command(command: Sequence[str]) -> None:
    """Check that the command can start, before its run is created.

    Raises:
        SettingsError: The script or program does not exist, or cannot be executed.
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
    """A command that starts at the beginning of the `with` block.

    Args:
        command: The command line.
        variables: Environment variables added to ours; they configure its Python processes.
        quiet: Hide its output.

    Raises:
        SettingsError: It cannot be started.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], *, quiet: bool = False
    ) -> None:
        paths = [str(_BOOTSTRAP), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._command = Command(tuple(full_command(command)), environment={
            **os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)})
        self._output = DEVNULL if quiet else None
        self._process: LocalProcess | None = None
        self._signals = ForwardedSignals()

    def __enter__(self) -> Self:
        """Start the command and forward signals to it."""
        with contextlib.ExitStack() as stack:
            # Handlers first: a signal during the start must not end us and orphan the child.
            stack.enter_context(self._signals)
            try:
                self._process = LocalProcess(self._command, stdin=None, stdout=self._output, stderr=self._output,
                                             group=Group.OURS)
            except OSError as error:
                program = self._command.arguments[0]
                raise SettingsError(f'Cannot run "{program}": {error.strerror}.') from error
            self._signals.to(self._process)
            stack.pop_all()  # `__exit__` closes it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop forwarding signals. A command that still runs, because we failed, continues on its own."""
        self._signals.__exit__(kind, error, trace)

    def end(self) -> None:
        """End the command, whose result is no longer needed."""
        self._started.terminate()
        self._started.wait()

    def wait(self) -> None:
        """Wait until the command has ended."""
        self._started.wait()

    @property
    def exit_code(self) -> int:
        """Exit code after the end; the negative signal number if a signal killed it."""
        code = self._started.poll()
        assert code is not None
        return code

    @property
    def _started(self) -> LocalProcess:
        assert self._process is not None
        return self._process


def end_like(exit_code: int) -> None:
    """End this process like a child: with its exit code, or by the signal that killed it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The reader is gone; buffered output must not change our exit code.
            silence(stream)
        except AttributeError:
            pass  # the stream was closed before we started
    if exit_code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
        exit_code = 128 - exit_code  # if the signal does not end this process
    sys.exit(exit_code)
