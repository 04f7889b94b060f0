"""A local process that runs rules, and the connection to it."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barograph.processes.command import Command
from barograph.processes.local_process import PIPE, LocalProcess
from barograph.watch.executor_process import AT_WORK, AT_WORK_BYTES, IDLE
from barograph.watch.framing import Frames, Messages
from barograph.watch.line import RuleLost, Start

_LOOK_SECS = 0.2
_END_SECS = 5.0
_DIED = "ended the process that it runs in"


class RuleProcess:
    """A process that runs rules; transports packed messages without reading them.

    Args:
        start: A packed `Start`.
        timeout_secs: Time limit of a rule for one step.
        search_path: Module search path.

    Raises:
        RuleLost: The process did not start.
    """

    def __init__(self, start: bytes, timeout_secs: float, search_path: Sequence[str]) -> None:
        self._timeout_secs = timeout_secs
        with tempfile.NamedTemporaryFile(prefix="barograph-", delete=False) as file:
            file.write(AT_WORK.pack(IDLE, 0))
        path = Path(file.name)
        with path.open("r+b") as shared:
            self._shared = mmap.mmap(shared.fileno(), AT_WORK_BYTES)
        # The process uses the watcher's search path; only the watcher handles Ctrl-C.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(item or os.getcwd() for item in search_path)}
        arguments = (sys.executable, "-m", "barograph.watch.executor_process", str(path))
        self._process = LocalProcess(Command(arguments, environment=environment), stdin=PIPE, stdout=PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        try:
            self._frames.send(start)
            self.receive()  # the process is ready
        except (RuleLost, OSError):
            lost = self._lost(_DIED)
            self.close()
            raise lost from None
        finally:
            path.unlink(missing_ok=True)

    def send(self, data: bytes) -> None:
        """Send a packed message.

        Raises:
            RuleLost: The process is gone.
        """
        try:
            self._frames.send(data)
        except OSError:
            raise self._lost(_DIED) from None

    def receive(self) -> bytes:
        """Wait for the answer and return it, packed.

        Raises:
            RuleLost: The process is gone, or a rule exceeded its time limit.
        """
        seen, since = AT_WORK.unpack_from(self._shared), time.monotonic()
        while not self._frames.has_come(_LOOK_SECS):
            now = AT_WORK.unpack_from(self._shared)
            if now != seen:
                seen, since = now, time.monotonic()
            elif now[0] != IDLE and time.monotonic() - since > self._timeout_secs:
                raise self._lost(f"took longer than {self._timeout_secs:g} s over one step")
        try:
            return self._frames.receive()
        except EOFError:
            raise self._lost(_DIED) from None

    def close(self) -> None:
        """Terminate the process."""
        self._process.kill()
        self._process.wait(_END_SECS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._shared.close()

    def _lost(self, what: str) -> RuleLost:
        return RuleLost(what, AT_WORK.unpack_from(self._shared)[0])


class ProcessLine:
    """Connection to a local process.

    Args:
        start: Initial data of the rules.
        timeout_secs: Time limit of a rule for one step.

    Raises:
        RuleLost: The process did not start.
    """

    def __init__(self, start: Start, timeout_secs: float) -> None:
        self._messages = Messages()
        self._process = RuleProcess(self._messages.packed(start), timeout_secs, sys.path)

    def send(self, message: tuple[str, Any]) -> None:
        """Send a request."""
        self._process.send(self._messages.packed(message))

    def receive(self) -> Any:
        """Return the answer to the last request."""
        return self._messages.unpacked(self._process.receive())

    def close(self) -> None:
        """Terminate the process."""
        self._process.close()
