"""Secrets that were typed into a job. Its description is stored, so a job with one is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from barograph.errors import SettingsError
from barograph.jobs.spec import JobSpec
from barograph.provenance.secrets import MARK, Secrets, names_secret
from barograph.watch.secrets import check_no_inline_secret

_SURELY = re.compile(r"token|passw|passphrase|pwd|secret|api_?-?key|access_?-?key|private_?-?key|credential|"
                     r"connection_?string|bearer|dsn|sas", re.IGNORECASE)
"""Names of secrets. Others, as "image-key" and "auth", often name something else."""
_OF_ANOTHER = re.compile(r"[_\-.](?:file|path|dir|folder|env|name|column|mode|type|ids?)$", re.IGNORECASE)
_NO_SECRET = re.compile(r"|true|false|none|null|auto|yes|no|on|off|[+-]?[\d._]+(?:e[+-]?\d+)?", re.IGNORECASE)
_REFERENCE = re.compile(r"\{env\.\w+\}")
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/_.~=\-]{16,}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_STORED = "has a secret, and what you type is stored with the job."
_CREDENTIALS = "Set credentials in the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."


def secret_problems(spec: JobSpec, url: str, secrets: Secrets) -> list[str]:
    """Return which parts of a job have a secret, a sentence each. None of them repeats the secret.

    Args:
        spec: The job.
        url: URL of its store; "": not known yet.
        secrets: Secrets of the submitting shell.
    """
    found = [_instead(where, name) for where, name in _in_words(spec.command, secrets)]
    found += [_instead(name, name) for name, value in spec.hyperparameters.items() if _is_secret(name, value, secrets)]
    found += [f"The source of channel {name} {_STORED} {_CREDENTIALS}" for name, source in spec.data.items()
              if secrets.holds(source)]
    found += [f"--{name} {_STORED}" for name in ("name", "target", "requirements", "cluster", "env_file")
              if secrets.holds(getattr(spec, name))]
    if not all(map(_NAME.fullmatch, spec.environment)):
        found.append("--env takes the name of a variable, not its value: --env API_KEY.")
    found += [f"The setting {name} {_STORED} Write it as $NAME, and set NAME in the environment."
              for name in _in_settings(spec.settings, "", secrets)]
    if secrets.holds(url):
        found.append(f"--to {_STORED} {_CREDENTIALS}")
    return found


def hidden(spec: JobSpec, secrets: Secrets) -> JobSpec:
    """Return a job without what `secret_problems` finds, to be shown."""
    return replace(
        spec, command=secrets.hide_words(spec.command),
        hyperparameters={name: MARK if _is_secret(name, value, secrets) else value
                         for name, value in spec.hyperparameters.items()},
        data={name: secrets.hide(source) for name, source in spec.data.items()},
        environment=tuple(name.partition("=")[0] for name in spec.environment),
        settings={name: value for name, value in spec.settings.items()
                  if not list(_in_settings(value, name, secrets))},
        **{name: secrets.hide(getattr(spec, name))  # type: ignore[arg-type]
           for name in ("name", "target", "requirements", "cluster", "env_file")})


def _in_words(words: tuple[str, ...], secrets: Secrets) -> Iterator[tuple[str, str]]:
    """Yield where a command has a secret, and the name of its option; "" if it has none."""
    option = ""
    for at, word in enumerate(words, 1):
        name, equals, value = word.partition("=")
        is_option = word.startswith("-") and len(word) > 1
        has_name = bool(equals) and (is_option or bool(re.fullmatch(r"[\w.+\-/@]+", name)))
        if has_name and _is_secret(name.lstrip("-+"), value, secrets):
            yield name, name
        elif not has_name and not is_option and option and _is_secret(option.lstrip("-"), word, secrets):
            yield option, option
        elif secrets.holds(word) and not os.path.exists(value if equals else word):
            yield option or f"Argument {at}", option
        option = word if is_option and not equals else ""


def _is_secret(name: str, value: str, secrets: Secrets) -> bool:
    """Return whether the value of an option is a secret, by the option's name or by its own."""
    if _REFERENCE.search(value) or _NO_SECRET.fullmatch(value) or os.path.exists(value):
        return False
    if secrets.holds(value):
        return True
    if not names_secret(name) or _OF_ANOTHER.search(name):
        return False
    return bool(_SURELY.search(name) or _RANDOM.fullmatch(value))


def _in_settings(value: Any, name: str, secrets: Secrets) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _in_settings(item, f"{name}.{key}" if name else str(key), secrets)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _in_settings(item, name, secrets)
    elif isinstance(value, str) and (secrets.holds(value) or (name.startswith("notify") and _is_inline(value))):
        yield name


def _is_inline(receiver: str) -> bool:
    try:
        check_no_inline_secret(receiver, "")
    except SettingsError:
        return "://" in receiver
    return False


def _instead(where: str, name: str) -> str:
    variable = re.sub(r"\W+", "_", name).strip("_").upper() or "NAME"
    variable = variable if _NAME.fullmatch(variable) and len(variable) > 1 else "NAME"
    return (f"{where} {_STORED} Set the environment variable {variable}, here or in a file for --env-file, and type "
            f"'{{env.{variable}}}' in its place.")
