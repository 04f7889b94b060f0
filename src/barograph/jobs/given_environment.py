"""The environment variables that the script of a job gets from whoever submits it. Their values are not stored."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from barograph.errors import SettingsError
from barograph.jobs.spec import JobSpec
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.processes.command import environment_without

_REFERENCE = re.compile(r"\{env\.([A-Za-z_]\w*)\}")
_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)=(?P<quote>['\"]?)(?P<value>.*)(?P=quote)")


def given_environment(spec: JobSpec) -> dict[str, str]:
    """Return the environment of the script: that of this shell, with the variables of `env_file`; raises as those."""
    return {**environment_without([LAUNCH_VARIABLE]), **file_values(spec.env_file)}


def given_names(spec: JobSpec) -> tuple[str, ...]:
    """Return the variables that a job names: by `environment`, in its words as `{env.NAME}`, and in `env_file`."""
    return tuple(dict.fromkeys((*spec.environment, *_references(spec.words), *file_values(spec.env_file))))


def environment_problems(spec: JobSpec) -> list[str]:
    """Return why the environment of a job cannot be had, a sentence each."""
    try:
        values = file_values(spec.env_file)
    except SettingsError as error:
        return [str(error)]
    names = dict.fromkeys((*spec.environment, *_references(spec.words)))
    return [f"The environment variable {name} is not set." for name in names
            if name not in values and name not in os.environ]


def file_values(path: str) -> Mapping[str, str]:
    """Return the variables of a file with a line NAME=VALUE for each; none for "".

    Raises:
        SettingsError: The file cannot be read, or a line has another form. The message has nothing of its content.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"Cannot read the file of variables: {why} ({path}).") from None
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SettingsError(f"Line {number} of the file of variables is not NAME=VALUE ({path}).")
        found[match["name"]] = match["value"]
    return found


def with_values(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return words with `{env.NAME}` replaced by the values of variables; those that are not set stay.

    Example:
        >>> with_values(["--key={env.API_KEY}"], {"API_KEY": "abc"})
        ('--key=abc',)
    """
    return tuple(_REFERENCE.sub(lambda match: environment.get(match[1], match[0]), word) for word in words)


def _references(words: Sequence[str]) -> list[str]:
    return [name for word in words for name in _REFERENCE.findall(word)]
