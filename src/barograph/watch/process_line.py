"""A process on this machine that rules run in, and the line to it."""

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
    """A process that rules run in; carries packed messages, and reads none.

    Args:
        start: A packed `Start`.
        timeout_secs: Longest time a rule may take for one step.
        search_path: Where modules are looked for.

    Raises:
        RuleLost: It did not get ready.
    """

    def __init__(self, start: bytes, timeout_secs: float, search_path: Sequence[str]) -> None:
        self._timeout_secs = timeout_secs
        with tempfile.NamedTemporaryFile(prefix="barograph-", delete=False) as file:
            file.write(AT_WORK.pack(IDLE, 0))
        path = Path(file.name)
        with path.open("r+b") as shared:
            self._shared = mmap.mmap(shared.fileno(), AT_WORK_BYTES)
        # Where the watcher finds a rule, its process does; and Ctrl-C is the watcher's to handle.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(item or os.getcwd() for item in search_path)}
        arguments = (sys.executable, "-m", "barograph.watch.executor_process", str(path))
        self._process = LocalProcess(Command(arguments, environment=environment), stdin=PIPE, stdout=PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        try:
            self._frames.send(start)
            self.receive()  # it is ready
        except (RuleLost, OSError):
            lost = self._lost(_DIED)
            self.close()
            raise lost from None
        finally:
            path.unlink(missing_ok=True)

    def send(self, data: bytes) -> None:
        """Hand over a packed message.

        Raises:
            RuleLost: The process is gone.
        """
        try:
            self._frames.send(data)
        except OSError:
            raise self._lost(_DIED) from None

    def receive(self) -> bytes:
        """Return the answer, packed, waiting for it.

        Raises:
            RuleLost: The process is gone, or a rule takes too long.
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
        """End the process."""
        self._process.kill()
        self._process.wait(_END_SECS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._shared.close()

    def _lost(self, what: str) -> RuleLost:
        return RuleLost(what, AT_WORK.unpack_from(self._shared)[0])


class ProcessLine:
    """The line to a process on this machine.

    Args:
        start: What the rules begin with.
        timeout_secs: Longest time a rule may take for one step.

    Raises:
        RuleLost: The process did not get ready.
    """

    def __init__(self, start: Start, timeout_secs: float) -> None:
        self._messages = Messages()
        self._process = RuleProcess(self._messages.packed(start), timeout_secs, sys.path)

    def send(self, message: tuple[str, Any]) -> None:
        """Ask something."""
        self._process.send(self._messages.packed(message))

    def receive(self) -> Any:
        """Return the answer."""
        return self._messages.unpacked(self._process.receive())

    def close(self) -> None:
        """End the process."""
        self._process.close()
