"""Gathers what made a run and writes it there, beside a training: from a thread, or from a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from barograph.errors import BarographError, ObjectExists
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.question import Question, question_from_text, question_to_text
from barograph.processes.command import environment_without, own_module
from barograph.processes.local_process import DEVNULL, PIPE, LocalProcess

if TYPE_CHECKING:
    from barograph.store.base import Store

_NICENESS = 10
PATIENCE_SECS = 10.0
"""So long a command that has ended is waited with for what made it to be written."""


class OriginThread:
    """Gathers beside a command that runs in another process.

    Args:
        store: The run's.
        attempt: Which life of it.
        question: Whose origin it is.
    """

    def __init__(self, store: Store, attempt: int, question: Question) -> None:
        self._store = store
        self._attempt = attempt
        self._question = question
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="barograph-origin", daemon=True)
        self._thread.start()

    def finish(self, patience_secs: float = PATIENCE_SECS) -> str:
        """Wait until all is written; return why it was not, "" where it was."""
        self._thread.join(patience_secs)
        if self._thread.is_alive():
            return f"the provenance of this run was not recorded: gathering it took more than {patience_secs:g} s"
        return self._problem

    def _run(self) -> None:
        try:
            gather_into(self._store, self._attempt, self._question, is_soon=_step_back)
        except Exception as error:  # noqa: BLE001 - the training goes on whatever is not kept of it; it is told
            self._problem = f"the provenance of this run was not recorded: {error}"


def gather_into(
    store: Store, attempt: int, question: Question, *, is_soon: Callable[[], None] = lambda: None
) -> None:
    """Gather what made an attempt of a run, and write it there; an attempt of which that is there is left as it is.

    Raises:
        StoreError: The store does not take it.
    """
    # Loaded here: whoever starts a command has no time for it before.
    from barograph.provenance.gathering import gathered
    from barograph.runs.state.origins import write_origin

    with contextlib.suppress(ObjectExists):
        write_origin(store, attempt, gathered(question, is_soon=is_soon))


def start_gathering(url: str, attempt: int, question: Question) -> LocalProcess:
    """Return a process that gathers, started; it ends by itself.

    Raises:
        OSError: It cannot be started.
    """
    command = own_module("barograph.runs.writing.gathering", url, str(attempt),
                         environment=environment_without([LAUNCH_VARIABLE]))
    process = LocalProcess(command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
    process.feed(question_to_text(question).encode())
    return process


def _step_back() -> None:
    """Let everything else go before this thread, where the system lets a thread do that."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def main(url: str, attempt: int) -> int:
    """Gather what made the run at a URL, of the question on standard input; return the exit code."""
    from barograph.store.urls import store_from_url

    # A Ctrl-C at the terminal is for the training.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    question = question_from_text(sys.stdin.read())
    try:
        gather_into(store_from_url(url), attempt, question, is_soon=_step_back)
    except BarographError as error:
        print(f"barograph: the provenance of this run was not recorded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
