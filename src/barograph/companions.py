"""Processes beside an attached training: the watcher, and the gatherer of provenance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from barograph.capture.recording import Recording
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.notify import notify_to_json
from barograph.model.question import question_now
from barograph.runs.state.places import away_from
from barograph.runs.writing.gathering import PATIENCE_SECS, start_gathering

LAST_WORDS_SECS = 15.0
"""For the last findings, when the training has ended."""
_FAREWELL_SECS = 2.0


def start_watcher(recorded: Recording, words_to: int) -> subprocess.Popen[bytes] | None:
    """Start the watcher process. None: it could not be started; training goes on without it."""
    environment = {name: value for name, value in os.environ.items() if name != LAUNCH_VARIABLE}
    # -P: what lies in the script's folder must not be imported in place of a library.
    command = [sys.executable, "-P", "-m", "barograph", "watch", recorded.url, "--brief"]
    settings = recorded.session.settings
    # By name: a watcher loads rules that are not installed, and writes files, only where it is told to.
    command += ["--rules", ",".join(settings.rules) or "none"]
    if settings.notify:
        # Not among its words, which everybody on this machine can read.
        environment["BAROGRAPH_NOTIFY"] = json.dumps([notify_to_json(item) for item in settings.notify])
    if settings.findings_to:
        command += ["--findings-to", settings.findings_to]
    try:
        # Of its own session: a Ctrl-C at the terminal is for the training, whose end it still has to tell.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words_to, stderr=words_to,
                                env=environment, start_new_session=True)
    except OSError as error:
        recorded.session.guard.caught(error, "starting the watcher")
        return None


def start_gatherer(
    recorded: Recording, config: str | os.PathLike[str] | None, command: Sequence[str]
) -> subprocess.Popen[bytes] | None:
    """Start the process that records the run's provenance; None if it could not be started."""
    # The script may be in its folder no more when it is asked; its files are read as they are now.
    question = question_now(command, away=away_from(recorded.url), by_this_python=True,
                            settings_file=os.path.abspath(config) if config is not None else "")
    try:
        return start_gathering(recorded.url, recorded.launch.attempt, question)
    except OSError as error:
        recorded.session.guard.caught(error, "recording the provenance of this run")
        return None


def await_gatherer(gatherer: subprocess.Popen[bytes]) -> None:
    """Wait briefly for the gatherer; a short training may end before it."""
    try:
        gatherer.wait(PATIENCE_SECS)
    except subprocess.TimeoutExpired:
        gatherer.kill()
        gatherer.wait()


def standard_error() -> int:
    """Return a file descriptor of the script's standard error that other processes can write to."""
    if hasattr(sys.stderr, "watch_fd_thread"):
        return 2  # a notebook shows what comes there, while its stream names the terminal of its server
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2  # a stream of Python alone, as notebooks and test runners have


def await_watcher(watcher: subprocess.Popen[bytes], patience_secs: float) -> None:
    """Wait for the watcher's last findings; it exits when the run has ended."""
    try:
        watcher.wait(patience_secs)
    except subprocess.TimeoutExpired:
        watcher.terminate()
        try:
            watcher.wait(_FAREWELL_SECS)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()
