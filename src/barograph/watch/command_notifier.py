"""Sends messages to the standard input of a user's command."""

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

    Each message is one line of JSON on standard input, as in the findings file; a digest has several lines. The
    messages count as delivered when the command exits with code 0.

    Args:
        text: The command and its arguments, quoted as for a shell, without expansion. The command reads secrets from
            its environment, which is the watcher's.
        timeout_secs: Time limit; then the command and its child processes are killed.

    Raises:
        SettingsError: The program does not exist, or the quotes do not match.
    """

    def __init__(self, text: str, *, timeout_secs: float) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise SettingsError(f"Cannot parse the notify command: {error}.") from None
        if not self._words:
            raise SettingsError('The notify command is empty. Example: to = "command:./tell.sh".')
        program = shutil.which(self._words[0])
        if program is None:
            raise SettingsError(f'Cannot find the program "{self._words[0]}" of the notify command.')
        # Absolute, since a watcher in the script's process may change its directory later.
        self._words[0] = os.path.abspath(program)
        self._timeout_secs = timeout_secs
        self._running: LocalProcess | None = None

    @property
    def program(self) -> str:
        """Name of the program."""
        return os.path.basename(self._words[0])

    def send(self, messages: Sequence[Message]) -> None:
        """See `MessageNotifier.send`."""
        lines = "".join(f"{json.dumps(message.body(), allow_nan=False)}\n" for message in messages)
        # A file, not a pipe: a background process of the command could keep a pipe open forever.
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as output:
            stdin.write(lines.encode())
            stdin.seek(0)
            code = self._run(stdin, output)
            if code:
                raise NotDelivered(f"it {ended_reason(code)}{_end_of_output(output)}")

    def abort(self) -> None:
        """See `MessageNotifier.abort`."""
        running = self._running
        if running is not None:
            running.kill()

    def _run(self, stdin: IO[bytes], output: IO[bytes]) -> int:
        try:
            # In its own session, so that its child processes are killed with it.
            process = LocalProcess(Command(tuple(self._words)), stdin=stdin, stdout=output, stderr=STDOUT)
        except OSError as error:
            raise NotDelivered(f"it cannot be started: {error.strerror}") from None
        self._running = process
        try:
            code = process.wait(self._timeout_secs)
            if code is None:
                process.kill()
                process.wait()
                why = f"it did not end within {self._timeout_secs:g} s and was killed{_end_of_output(output)}"
                raise NotDelivered(why)
            return code
        finally:
            self._running = None


def _end_of_output(output: IO[bytes]) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - 4 * _OUTPUT_CHARS))
    # The run stores this text, and a failing program often prints its arguments.
    whole = Secrets(os.environ).hide(output.read().decode("utf-8", "replace"))
    text = " ".join(whole.split())[-_OUTPUT_CHARS:]
    return f": {text}" if text else ""
