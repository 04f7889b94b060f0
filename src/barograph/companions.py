"""Processes beside an attached training: the watcher, and the gatherer of provenance."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from barograph.capture.recording import Recording
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.question import question_now
from barograph.processes.command import environment_without, own_module
from barograph.processes.local_process import DEVNULL, LocalProcess
from barograph.runs.state.places import away_from
from barograph.runs.writing.gathering import PATIENCE_SECS, start_gathering
from barograph.watch.watch_command import watch_command

WATCHER_SECS = 15.0
"""How long to wait for the last findings after the training."""
_FAREWELL_SECS = 2.0


def start_watcher(recorded: Recording, words_to: int) -> LocalProcess | None:
    """Start the watcher process. Returns None if it cannot be started; training continues without it."""
    try:
        # In its own session: Ctrl-C is for the training only; the watcher still has to report its end.
        return LocalProcess(watch_command(recorded.url, recorded.session.settings), stdout=words_to, stderr=words_to)
    except OSError as error:
        recorded.session.guard.caught(error, "starting the watcher")
        return None


def start_gatherer(
    recorded: Recording, config: str | os.PathLike[str] | None, command: Sequence[str]
) -> LocalProcess | None:
    """Start the process that records the run's provenance; None if it could not be started."""
    # Resolved now, because the script may change its directory later.
    question = question_now(command, away=away_from(recorded.url), by_this_python=True,
                            settings_file=os.path.abspath(config) if config is not None else "")
    try:
        return start_gathering(recorded.url, recorded.launch.attempt, question)
    except OSError as error:
        recorded.session.guard.caught(error, "recording the provenance of this run")
        return None


def start_studio(recorded: Recording, words_to: int) -> None:
    """Start the process that prints the link to the run in the web UI; it goes on after the training."""
    try:
        start_studio_at(recorded.url, words_to)
    except OSError as error:
        recorded.session.guard.caught(error, "starting the studio")


def start_studio_at(url: str, words_to: int) -> None:
    """Start the process that prints the link to the run at a URL in the web UI.

    Args:
        url: URL of the run.
        words_to: File descriptor to print to.

    Raises:
        OSError: It cannot be started.
    """
    # Named, not imported: it loads a web server.
    command = own_module("barograph.web.beside", url, environment=environment_without([LAUNCH_VARIABLE]))
    LocalProcess(command, stdout=DEVNULL, stderr=words_to).let_go()


def await_gatherer(gatherer: LocalProcess) -> None:
    """Wait briefly for the gatherer; a short training may end before it."""
    if gatherer.wait(PATIENCE_SECS) is None:
        gatherer.kill()
        gatherer.wait()


def standard_error() -> int:
    """Return a file descriptor of the script's standard error that other processes can write to."""
    if hasattr(sys.stderr, "watch_fd_thread"):
        return 2  # a notebook shows this output, while its stream names the terminal of its server
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2  # a pure Python stream, as in notebooks and test runners


def await_watcher(watcher: LocalProcess, patience_secs: float) -> None:
    """Wait for the watcher's last findings; it exits when the run has ended."""
    if watcher.wait(patience_secs) is None:
        watcher.end(_FAREWELL_SECS)
