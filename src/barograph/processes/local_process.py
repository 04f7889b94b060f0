"""A process on this machine: its start, its end and its process group. The one place that starts processes."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from barograph.processes.command import Command, own_module

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT

Stream = int | IO[bytes] | None
"""Standard input or output of a process: a file, its descriptor, or one of the constants above. None: ours."""

_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.01, 0.2
_started_here: set[int] = set()


class Group(enum.Enum):
    """The process group that a process starts in."""

    SESSION = "session"
    """Its own, in its own session: without a terminal, so neither Ctrl-C nor a prompt for a password reaches it."""

    OWN = "own"
    """Its own, in our session: it keeps the terminal's output, and Ctrl-C does not reach it."""

    OURS = "ours"
    """Ours: the terminal treats it like us. Only the process itself is signaled, not its children."""


class LocalProcess:
    """A process on this machine, started.

    With a group of its own, `kill` and `end` also reach the processes that it started.

    Args:
        command: What to start.
        stdin, stdout, stderr: Its standard streams. `PIPE` gives an unbuffered pipe.
        group: Its process group.
        pass_fds: Our file descriptors that it inherits.
        ends_with_us: End its group if this process ends first, even if it is killed. Costs a small process.

    Attributes:
        pid: Its number.
        stdin, stdout: Our ends of pipes.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, command: Command, *, stdin: Stream = DEVNULL, stdout: Stream = None, stderr: Stream = None,
        group: Group = Group.SESSION, pass_fds: Sequence[int] = (), ends_with_us: bool = False,
    ) -> None:
        self._popen = subprocess.Popen(
            command.arguments, cwd=command.directory, env=command.environment, stdin=stdin, stdout=stdout,
            stderr=stderr, bufsize=0, pass_fds=pass_fds, start_new_session=group is Group.SESSION,
            process_group=0 if group is Group.OWN and os.name != "nt" else None)
        self._has_group = group is not Group.OURS and hasattr(os, "killpg")
        self._left_others: bool | None = None
        self.pid = self._popen.pid
        _started_here.add(self.pid)
        self.stdin, self.stdout = self._popen.stdin, self._popen.stdout
        self._guard: LocalProcess | None = None
        if ends_with_us:
            assert self._has_group
            self._guard = LocalProcess(own_module("barograph.processes.guard", str(self.pid)), stdin=PIPE)

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number if a signal ended it; None while it runs."""
        return self._noted(self._popen.poll())

    def wait(self, timeout_secs: float | None = None) -> int | None:
        """Wait for the end. Return the exit code, or None if the process still runs after `timeout_secs`."""
        try:
            return self._noted(self._popen.wait(timeout_secs))
        except subprocess.TimeoutExpired:
            return None

    def feed(self, data: bytes) -> None:
        """Write to its standard input, a pipe, and close it. A process that does not read it all is no error."""
        assert self.stdin is not None
        view = memoryview(data)
        with contextlib.suppress(OSError), self.stdin:
            while view:
                view = view[self.stdin.write(view):]

    def send(self, number: int) -> None:
        """Send a signal to the process alone. Nothing happens if it has ended."""
        self._popen.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT to the process alone, as Ctrl-C does."""
        self.send(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        if self._has_group:
            self._send_to_group(signal.SIGTERM)
        else:
            self._popen.terminate()

    def kill(self) -> None:
        """Kill the process and its group."""
        if self._has_group:
            self._send_to_group(signal.SIGKILL)
        else:
            self._popen.kill()

    def end(self, grace_secs: float) -> int:
        """Send SIGTERM to the process and its group, SIGKILL to what is left after `grace_secs`.

        Returns:
            The exit code.
        """
        deadline = time.monotonic() + grace_secs
        try:
            self.terminate()
            if LocalProcess.wait(self, grace_secs) is not None:
                # A shell ends at once, while its children may be saving a checkpoint.
                self._wait_for_others(deadline)
        finally:
            self.kill()
        return self._popen.wait()

    def let_go(self) -> None:
        """Stop managing the process: it continues when this one ends, and is reaped if it ends first."""
        threading.Thread(target=self._popen.wait, name="barograph-reaper", daemon=True).start()

    def disown(self) -> None:
        """Forget the process in a forked child: it is the parent's, and this process cannot wait for it."""
        self._popen.returncode = 0

    def _noted(self, code: int | None) -> int | None:
        if code is not None and self._left_others is None:
            _started_here.discard(self.pid)
            # Checked once, right after the end: the number of an empty group may be reused soon.
            self._left_others = self._has_group and exists(self.pid)
            if not self._left_others:
                self._dismiss_guard()
        return code

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.feed(b"done")
            guard.wait()

    def _send_to_group(self, number: int) -> None:
        if LocalProcess.poll(self) is None or self._left_others:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)
        if number == signal.SIGKILL:
            self._dismiss_guard()

    def _wait_for_others(self, deadline: float) -> None:
        pause = _FIRST_PAUSE_SECS
        while self._left_others and is_alive(self.pid) and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE_SECS, 2 * pause)


def is_started_here(pid: int) -> bool:
    """Return whether a child of this process was started by a `LocalProcess`, which waits for its end."""
    return pid in _started_here


def is_alive(group: int) -> bool:
    """Return whether a process group has a process that is not a zombie.

    In a container whose first process does not reap zombies, they would look alive forever.
    """
    return exists(group) and (not Path("/proc/self/stat").exists() or any(
        state not in (b"Z", b"X") for state, of_group in map(_state_and_group, Path("/proc").glob("[0-9]*"))
        if of_group == group))


def _state_and_group(process: Path) -> tuple[bytes, int]:
    try:
        # The name in parentheses may contain spaces and parentheses.
        fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0], int(fields[2])
    except (OSError, IndexError, ValueError):
        return b"X", 0  # it has just ended


def exists(group: int) -> bool:
    """Return whether a process group has a process, including zombies."""
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True
