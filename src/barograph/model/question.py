"""Whose origin is to be found out: said where a command is started, and answered beside it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """Whose origin is asked for.

    Attributes:
        command: As typed.
        directory: In which.
        environment: Of it.
        started_unix: When it was started.
        away: Folders of runs, which are no code.
        settings_file: `barograph.toml` that was read; "" where there was none.
        derived_from: Id of the run that this is a rerun of.
        by_this_python: The command is run by this Python, whatever it names: it has attached itself.
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
    """Return whose origin is asked for: of a command that is started here and now."""
    return Question(tuple(command), os.getcwd(), dict(os.environ), time.time(), tuple(away), settings_file,
                    derived_from, by_this_python)


def question_to_text(question: Question) -> str:
    """Return a question as one line of JSON, but for the environment: a process that is started inherits it."""
    return json.dumps({**asdict(question), "environment": {}})


def question_from_text(text: str) -> Question:
    """Return what `question_to_text` gave, with the environment of this process."""
    said = json.loads(text)
    return Question(**{**said, "environment": dict(os.environ), "command": tuple(said["command"]),
                       "away": tuple(said["away"])})
