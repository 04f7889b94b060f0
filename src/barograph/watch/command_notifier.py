"""Messages on the standard input of a command of the user's own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from typing import IO

from barograph.errors import SettingsError
from barograph.processes.command import Command
from barograph.processes.local_process import STDOUT, LocalProcess
from barograph.processes.process import ended_reason
from barograph.provenance.secrets import Secrets
from barograph.watch.message import Message
from barograph.watch.message_notifier import NotDelivered

_OUTPUT_CHARS = 300


class CommandNotifier:
    """Starts a command for each message, without a shell, and waits for it.

    Each message is one line of JSON on its standard input, as in the file of findings; what was gathered is several
    lines. It must take them all: they count as told when it ends with exit code 0.

    Args:
        text: The command and its arguments, quoted as for a shell; nothing in it is replaced. Secrets it takes
            from its environment, which is ours.
        timeout_secs: Longest time it may run; then it is killed, with what it started.

    Raises:
        SettingsError: There is no such program, or the quotes do not fit.
    """

    def __init__(self, text: str, *, timeout_secs: float) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise SettingsError(f"The command that is to be told cannot be read: {error}.") from None
        if not self._words:
            raise SettingsError('The command that is to be told is empty; write to = "command:./tell.sh", say.')
        program = shutil.which(self._words[0])
        if program is None:
            raise SettingsError(f'There is no program "{self._words[0]}" to tell of findings.')
        # Whole, since a watcher beside a script may be somewhere else by then.
        self._words[0] = os.path.abspath(program)
        self._timeout_secs = timeout_secs
        self._running: LocalProcess | None = None

    @property
    def program(self) -> str:
        """Name of what is run."""
        return os.path.basename(self._words[0])

    def send(self, messages: Sequence[Message]) -> None:
        """See `MessageNotifier.send`."""
        lines = "".join(f"{json.dumps(message.body(), allow_nan=False)}\n" for message in messages)
        # A file, not a pipe: what the command leaves running behind it may hold a pipe open for ever.
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
            told.write(lines.encode())
            told.seek(0)
            code = self._run(told, said)
            if code:
                raise NotDelivered(f"it {ended_reason(code)}{_last_words(said)}")

    def abort(self) -> None:
        """See `MessageNotifier.abort`."""
        running = self._running
        if running is not None:
            running.kill()

    def _run(self, told: IO[bytes], said: IO[bytes]) -> int:
        try:
            # In a session of its own, so that it can be killed with all that it started.
            process = LocalProcess(Command(tuple(self._words)), stdin=told, stdout=said, stderr=STDOUT)
        except OSError as error:
            raise NotDelivered(f"it cannot be started: {error.strerror}") from None
        self._running = process
        try:
            code = process.wait(self._timeout_secs)
            if code is None:
                process.kill()
                process.wait()
                why = f"it did not end within {self._timeout_secs:g} s and was killed{_last_words(said)}"
                raise NotDelivered(why)
            return code
        finally:
            self._running = None


def _last_words(said: IO[bytes]) -> str:
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 4 * _OUTPUT_CHARS))
    # They go into the run, and a program that fails often says what it was called with.
    whole = Secrets(os.environ).hide(said.read().decode("utf-8", "replace"))
    text = " ".join(whole.split())[-_OUTPUT_CHARS:]
    return f": {text}" if text else ""
