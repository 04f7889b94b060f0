"""Request to gather the provenance of a command, passed to the process that gathers it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """Request for the provenance of a command.

    Attributes:
        command: Command as typed.
        directory: Working directory.
        environment: Environment variables.
        started_unix: Start time.
        away: Folders of runs, which are not code.
        settings_file: `barograph.toml` that was read; "" if none.
        derived_from: ID of the run that this one reruns.
        by_this_python: This Python runs the command, whatever it names: the script attached itself.
    """

    command: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    started_unix: float
    away: tuple[str, ...] = ()
    settings_file: str = ""
    derived_from: str = ""
    by_this_python: bool = False


def question_now(
    command: Sequence[str], *, away: Iterable[str] = (), settings_file: str = "", derived_from: str = "",
    by_this_python: bool = False,
) -> Question:
    """Return the request for a command that is started here and now."""
    return Question(tuple(command), os.getcwd(), dict(os.environ), time.time(), tuple(away), settings_file,
                    derived_from, by_this_python)


def question_to_text(question: Question) -> str:
    """Return a request as one line of JSON, without the environment, which a started process inherits."""
    return json.dumps({**asdict(question), "environment": {}})


def question_from_text(text: str) -> Question:
    """Return the request from the output of `question_to_text`, with the environment of this process."""
    said = json.loads(text)
    return Question(**{**said, "environment": dict(os.environ), "command": tuple(said["command"]),
                       "away": tuple(said["away"])})
