"""Gathers the provenance of a run and writes it, in a thread or in a process next to the training."""

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
"""How long to wait for the provenance after a command has ended."""


class OriginThread:
    """Gathers the provenance of a command that runs in another process.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        question: Request for the provenance.
    """

    def __init__(self, store: Store, attempt: int, question: Question) -> None:
        self._store = store
        self._attempt = attempt
        self._question = question
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="barograph-origin", daemon=True)
        self._thread.start()

    def finish(self, patience_secs: float = PATIENCE_SECS) -> str:
        """Wait until all is written; return why it failed, or ""."""
        self._thread.join(patience_secs)
        if self._thread.is_alive():
            return f"the provenance of this run was not recorded: gathering it took more than {patience_secs:g} s"
        return self._problem

    def _run(self) -> None:
        try:
            gather_into(self._store, self._attempt, self._question, is_soon=_step_back)
        except Exception as error:  # noqa: BLE001 - the training continues; the missing files are reported
            self._problem = f"the provenance of this run was not recorded: {error}"


def gather_into(
    store: Store, attempt: int, question: Question, *, is_soon: Callable[[], None] = lambda: None
) -> None:
    """Gather the provenance of an attempt and write it, unless the attempt has one.

    Raises:
        StoreError: The store rejects it.
    """
    # Imported here, so that commands start fast.
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
    """Lower the priority of this thread, if the system supports it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def main(url: str, attempt: int) -> int:
    """Gather the provenance of the run at a URL, with the request on standard input; return the exit code."""
    from barograph.store.urls import store_from_url

    # Ctrl-C at the terminal is for the training.
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
