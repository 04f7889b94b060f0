"""Parses the options of a script, and replaces some of them in a command."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from barograph.errors import SettingsError
from barograph.model.origin import Parameter

_PAIR = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w.\-/@]*)=(?P<value>.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d+)(?:[eE][+-]?\d+)?")
_PYTHON = re.compile(r"python(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_VALUED_FLAGS = ("-W", "-X", "--check-hash-based-pycs")


def parameters_of(command: Sequence[str]) -> dict[str, Parameter]:
    """Return the options of the script in a command by name, without dashes.

    An option without a value is True; one with several values, or given several times, is a list.

    Example:
        >>> parameters_of(["torchrun", "train.py", "--lr", "0.1", "--epochs=3", "--amp", "--sizes", "1", "2"])
        {'lr': 0.1, 'epochs': 3, 'amp': True, 'sizes': [1, 2]}
        >>> parameters_of(["train.py", "model.depth=4", "--shift", "-1"])
        {'model.depth': 4, 'shift': -1}
    """
    found: dict[str, Parameter] = {}
    words = list(command[script_at(command) + 1:])
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            break
        pair = _PAIR.fullmatch(word.lstrip("-")) if is_option(word) else _PAIR.fullmatch(word)
        if pair:
            _add(found, pair["name"], value_of(pair["value"]))
        elif is_option(word):
            values = []
            while at < len(words) and not is_option(words[at]) and not _PAIR.fullmatch(words[at]):
                values.append(value_of(words[at]))
                at += 1
            _add(found, word.lstrip("-"), True if not values else values[0] if len(values) == 1 else values)
    return found


def replaced(
    command: Sequence[str], changes: Mapping[str, str], flags: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return the command with some options of its script replaced or added.

    Args:
        command: The original command.
        changes: Name to value as text. "true" adds a flag, "false" removes it.
        flags: Name to its spellings in the script's parser, if known.

    Raises:
        SettingsError: A name begins with a dash, or is a positional argument.

    Example:
        >>> replaced(["train.py", "--lr", "0.5", "--epochs=3"], {"lr": "0.1", "epochs": "9", "seed": "1"})
        ['train.py', '--lr', '0.1', '--epochs=9', '--seed', '1']
        >>> replaced(["train.py", "model.depth=4", "--amp"], {"model.depth": "8", "amp": "false"})
        ['train.py', 'model.depth=8']
        >>> replaced(["train.py"], {"lr": "0.1", "amp": "false"}, {"lr": ["lr="], "amp": ["--amp", "--noamp"]})
        ['train.py', 'lr=0.1', '--noamp']
    """
    words = list(command)
    first = script_at(words) + 1
    head, tail = words[:first], words[first:]
    in_pairs = any(flag.endswith("=") and not flag.startswith("-") for ways in (flags or {}).values() for flag in ways)
    for name, value in changes.items():
        known = _flags_of(name, flags or {})
        if known is not None and not known and not _is_given(tail, {name}):
            raise SettingsError(f'"{name}" is a positional argument, which cannot be changed here. Run the script with '
                                "another value.")
        if not name or name.startswith("-"):
            raise SettingsError(f'"{name}={value}" is not an option; write it without dashes, as in lr=0.1.')
        opposites = _opposites(known or ())
        if opposites and value in ("true", "false"):
            # One of the two opposite flags is always given, whatever the default.
            other = [flag for flag in known or () if flag not in opposites]
            spellings = {flag.lstrip("-") for flag in known or ()}
            tail = [word for word in tail
                    if not (is_option(word) and word.lstrip("-").partition("=")[0] in spellings)]
            tail += (other if value == "true" else opposites)[-1:]
            continue
        tail = _with(tail, name, value, known if known is not None else [f"{name}="] if in_pairs else ())
    return [*head, *tail]


def script_at(command: Sequence[str]) -> int:
    """Return the index of the script in a command: the first `.py`, the module after `-m`, or the first word."""
    for at, word in enumerate(command):
        if word.endswith(".py"):
            return at
        if word == "-m" and at + 1 < len(command):
            # `python -m torch.distributed.run train.py`: the script comes after the launcher.
            later = [place for place, other in enumerate(command) if place > at and other.endswith(".py")]
            return later[0] if later else at + 1
    if command and _PYTHON.fullmatch(os.path.basename(command[0])):
        return _first_argument(command)
    return 0


def value_of(text: str) -> Parameter:
    """Parse a value: a number, a boolean, a list, or else the text.

    Example:
        >>> [value_of(text) for text in ("3", "1e-4", "true", "[1, 2]", "adam", "nan", "007")]
        [3, 0.0001, True, [1, 2], 'adam', 'nan', '007']
    """
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if text.startswith("["):
        try:
            listed: Any = json.loads(text)
        except ValueError:
            return text
        return listed if isinstance(listed, list) and all(isinstance(item, bool | int | float | str)
                                                          for item in listed) else text
    # Digits with a leading zero are a name: a number would be written differently.
    if not _NUMBER.fullmatch(text) or re.match(r"[+-]?0\d", text):
        return text
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else text


def is_option(word: str) -> bool:
    """Return whether a word is an option and not a negative number."""
    return len(word) > 1 and word.startswith("-") and not _NUMBER.fullmatch(word)


def _add(found: dict[str, Parameter], name: str, value: Parameter) -> None:
    if name not in found:
        found[name] = value
        return
    found[name] = [*_listed(found[name]), *_listed(value)]


def _listed(value: Parameter) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _flags_of(name: str, flags: Mapping[str, Sequence[str]]) -> Sequence[str] | None:
    """Return the spellings of an option, by its name or one of its flags."""
    for known, ways in flags.items():
        if name in (known, *(flag.lstrip("-").rstrip("=") for flag in ways)):
            return ways
    return None


def _opposites(flags: Sequence[str]) -> list[str]:
    """Return the flags that negate an option: `--no-amp` in argparse, `--noamp` in absl."""
    return [flag for flag in flags
            if flag.startswith("--no-") or (flag.startswith("--no") and f"--{flag[4:]}" in flags)]


def _is_given(words: Sequence[str], spellings: set[str]) -> bool:
    pairs = (_PAIR.fullmatch(word.lstrip("-") if is_option(word) else word) for word in words)
    return any(pair is not None and pair["name"] in spellings for pair in pairs)


def _with(words: list[str], name: str, value: str, flags: Sequence[str]) -> list[str]:
    spellings = {name, name.replace("_", "-"), name.replace("-", "_")}
    spellings |= {flag.lstrip("-").rstrip("=") for flag in flags}
    kept: list[str] = []
    at, is_set = 0, False
    while at < len(words):
        word = words[at]
        at += 1
        bare = word.lstrip("-") if is_option(word) else word
        pair = _PAIR.fullmatch(bare)
        if pair and pair["name"] in spellings:
            if not is_set and value != "false":
                kept.append(f"{word.partition('=')[0]}={value}")
            elif not is_set and not is_option(word):
                kept.append(f"{word.partition('=')[0]}=false")
            is_set = True
        elif is_option(word) and bare in spellings:
            has_values = False
            while at < len(words) and not is_option(words[at]) and not _PAIR.fullmatch(words[at]):
                at, has_values = at + 1, True
            if not is_set:
                kept += [word, value] if has_values or value not in ("true", "false") else [word] * (value == "true")
            is_set = True
        else:
            kept.append(word)
    option = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else f"--{name}")
    if not is_set and option.endswith("="):
        kept.append(f"{option}{value}")
    elif not is_set and value != "false":
        kept += [option] if value == "true" else [option, value]
    return kept


def _first_argument(command: Sequence[str]) -> int:
    at = 1
    while at < len(command):
        if command[at] in _VALUED_FLAGS:
            at += 2
        elif command[at] == "-c":
            return min(at + 1, len(command) - 1)
        elif command[at].startswith("-"):
            at += 1
        else:
            return at
    return 0
