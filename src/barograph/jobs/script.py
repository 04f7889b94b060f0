"""The script of a job on one instance: started with recording, its output stored, ended with a grace period."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from barograph import capture
from barograph.errors import JobRefused
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.launchers import exit_code_of
from barograph.machine.cpu_use import CpuUse
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.model.resume import ResumeOrder
from barograph.processes.command import Command
from barograph.processes.local_process import Group, LocalProcess
from barograph.processes.streamed_process import StreamedProcess

GRACE_SECS = 120.0
"""Time between SIGTERM and SIGKILL, as on SageMaker."""
_BOOTSTRAP = Path(capture.__path__[0]) / "inject"
_OF_COMMAND = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC)
_PEERS_SECS = 30.0
"""The same for processes whose peer failed: they may wait for it for ever. As with torchrun."""
_TAIL_BYTES = 64 * 1024
_MOST_WAITING_BYTES = 16 * 2**20
"""A script that prints more while the store is slow waits, so that its output does not fill the memory."""


class Trained(NamedTuple):
    """Result of a script that has ended.

    Attributes:
        code: Its exit code.
        tail: The end of its output.
        was_asked: Whether it still ran when it was asked to end.
        cores: Mean number of cores that it used; None if unknown.
    """

    code: int
    tail: str
    was_asked: bool
    cores: float | None = None


def recording_environment(
    environment: Mapping[str, str], launch: str, *, attempt: int, resume: ResumeOrder | None
) -> dict[str, str]:
    """Return an environment in which Python processes record themselves.

    Args:
        environment: Environment of the script.
        launch: A `Launch` as text; "": nothing is recorded.
        attempt: Attempt of the run.
        resume: Where to resume; None: from the beginning.
    """
    if not launch:
        return dict(environment)
    known = launch_from_environment({LAUNCH_VARIABLE: launch})
    assert isinstance(known, Launch)
    paths = [str(_BOOTSTRAP), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths),
            LAUNCH_VARIABLE: replace(known, attempt=attempt, resume=resume).to_text()}


class Script:
    """The processes of a script on one instance.

    Args:
        commands: What to start.
        log: Takes their output.
        ends_with_us: End them if this process is killed.

    Attributes:
        use: How many cores it uses.

    Raises:
        JobRefused: The program does not exist, or cannot be run.
        OSError: One cannot be started.
    """

    def __init__(self, commands: Sequence[Command], log: InstanceLog, *, ends_with_us: bool = False) -> None:
        self.use = CpuUse()
        self._log = log
        self._tail = b""
        self._processes: list[StreamedProcess] = []
        self._kill_at: float | None = None
        try:
            for command in commands:
                self._processes.append(StreamedProcess(command, group=Group.SESSION, merged=True,
                                                       ends_with_us=ends_with_us,
                                                       most_waiting_bytes=_MOST_WAITING_BYTES))
        except BaseException as error:
            self.kill()
            if isinstance(error, OSError) and error.errno in _OF_COMMAND:
                raise JobRefused(f"The script cannot be started: {error.strerror} "
                                 f"({error.filename or commands[0].arguments[0]}).") from error
            raise

    @property
    def pid(self) -> int:
        """Number of its first process."""
        return self._processes[0].pid

    @property
    def is_running(self) -> bool:
        """Whether one of its processes has not ended; one that has may still have output to take."""
        return any(LocalProcess.poll(process) is None for process in self._processes)

    @property
    def tail(self) -> str:
        """The end of its output."""
        return self._tail.decode("utf-8", "replace")

    def turn(self, wait_secs: float) -> int | None:
        """Take output and wait a little; return the exit code once all processes have ended.

        The first process that fails ends the others.
        """
        codes = [process.poll() for process in self._processes]
        for process in self._processes:
            output = process.output(wait_secs / len(self._processes) if None in codes else 0.0).out
            self._log.add(output)
            self._tail = (self._tail + output)[-_TAIL_BYTES:]
        if any(codes) and self._kill_at is None:
            self.terminate(_PEERS_SECS)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.kill()
        if None in codes:
            return None
        return exit_code_of([code for code in codes if code is not None])

    def terminate(self, grace_secs: float) -> None:
        """Send SIGTERM to the processes, and SIGKILL after the grace period, while `turn` is called.

        Called again, it may shorten the grace period.
        """
        kill_at = time.monotonic() + grace_secs
        if self._kill_at is None:
            self._kill_at = kill_at
            for process in self._processes:
                process.terminate()
        self._kill_at = min(self._kill_at, kill_at)

    def kill(self) -> None:
        """Kill the processes."""
        for process in self._processes:
            process.kill()
