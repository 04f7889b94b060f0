"""A command to start: program, arguments, directory and environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and the directory and environment to start it in.

    Attributes:
        arguments: The program, then its arguments. No shell interprets them.
        directory: Working directory. None: the current one.
        environment: All environment variables. None: those of the process that starts it.
    """

    arguments: tuple[str, ...]
    directory: str | None = None
    environment: Mapping[str, str] | None = None


def own_module(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Command:
    """Return the command that runs a module of Barograph with this Python.

    Example:
        >>> own_module("barograph", "watch", "runs/first").arguments[1:]
        ('-P', '-m', 'barograph', 'watch', 'runs/first')
    """
    # -P: a file in the script's directory must not be imported in place of a library.
    return Command((sys.executable, "-P", "-m", module, *arguments), environment=environment)


def environment_without(names: Collection[str]) -> dict[str, str]:
    """Return this process's environment variables except those named."""
    return {name: value for name, value in os.environ.items() if name not in names}
