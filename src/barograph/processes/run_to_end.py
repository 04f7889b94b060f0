"""Short commands: run to their end, with a timeout, a limit on output, and captured output."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from typing import IO

from barograph.processes.command import Command
from barograph.processes.local_process import DEVNULL, Group, LocalProcess

_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.002, 0.05


class NotCompleted(Exception):
    """A command was killed before its end."""


class TimedOut(NotCompleted):
    """A command took too long."""


class TooMuchOutput(NotCompleted):
    """A command's output exceeded the limit."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a command.

    Attributes:
        exit_code: Exit code, or minus the signal's number if a signal ended it.
        out: Standard output.
        err: Standard error.
    """

    exit_code: int
    out: bytes = b""
    err: bytes = b""


def run_to_end(
    command: Command, *, timeout_secs: float | None, limit_bytes: int | None = None, stdin: bytes = b"",
    stdout: IO[bytes] | None = None, group: Group = Group.SESSION,
) -> Completed:
    """Run a command to its end and return its output.

    If this call ends early, for whatever reason, the command and its group are killed. A command that ends by itself
    may leave other processes running.

    Args:
        command: The command.
        timeout_secs: Maximum time. None: unlimited.
        limit_bytes: Maximum size of standard output; standard error is truncated to it. None: unlimited.
        stdin: Its standard input.
        stdout: File for standard output; then `Completed.out` is empty.
        group: Its process group.

    Raises:
        OSError: It cannot be started.
        TimedOut: It took longer.
        TooMuchOutput: It wrote more.
    """
    deadline = None if timeout_secs is None else time.monotonic() + timeout_secs
    with contextlib.ExitStack() as files:
        # Files, not pipes: processes that the command leaves running may keep a pipe open forever.
        out = stdout if stdout is not None else files.enter_context(tempfile.TemporaryFile())
        err = files.enter_context(tempfile.TemporaryFile())
        given = files.enter_context(tempfile.TemporaryFile()) if stdin else None
        if given is not None:
            given.write(stdin)
            given.seek(0)
        process = LocalProcess(command, stdin=DEVNULL if given is None else given, stdout=out, stderr=err, group=group)
        try:
            exit_code = _exit_code(process, deadline, out.fileno(), limit_bytes)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Completed(exit_code, b"" if stdout is not None else _content(out, None), _content(err, limit_bytes))


def _exit_code(process: LocalProcess, deadline: float | None, out: int, limit_bytes: int | None) -> int:
    pause = _FIRST_PAUSE_SECS
    while True:
        exit_code = process.wait(pause)
        if limit_bytes is not None and os.fstat(out).st_size > limit_bytes:
            raise TooMuchOutput(f"more than {limit_bytes:,} bytes")
        if exit_code is not None:
            return exit_code
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOut("took too long")
        pause = min(_LONGEST_PAUSE_SECS, 2 * pause)


def _content(file: IO[bytes], limit_bytes: int | None) -> bytes:
    file.seek(0)
    return file.read(-1 if limit_bytes is None else limit_bytes)
