"""Runs git in a subprocess, with a timeout, without network and without changing the repository."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from barograph.processes.command import Command
from barograph.processes.run_to_end import TimedOut, TooMuchOutput, run_to_end

_ALWAYS = (
    "-c", "core.quotepath=off", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "color.ui=false",
    "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.ignoreSubmodules=none",
    "-c", "diff.relative=false", "-c", "core.pager=cat", "-c", "advice.detachedHead=false",
    # A bare repository may have come with someone's files, and its settings can run programs.
    "-c", "safe.bareRepository=explicit",
)
_LEFT_OUT = frozenset((
    "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_TRACE", "GIT_PAGER",
    # In a git hook, these variables name the hook's repository; wanted is that of the directory.
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
))
_MOST_BYTES = 32 * 2**20


class GitFailed(Exception):
    """git failed; the text says why. Internal to this package."""


class TooMuch(GitFailed):
    """git printed more than the limit."""


class Git:
    """git in one directory.

    Args:
        folder: The directory.
        patience_secs: Timeout of all calls together.
        program: The git program.
        may_fetch: Allow network access.

    Attributes:
        folder: The directory.
    """

    def __init__(self, folder: str | Path, *, patience_secs: float = 20.0, program: str = "git",
                 may_fetch: bool = False) -> None:
        self.folder = folder
        self._program = program
        self._deadline = time.monotonic() + patience_secs
        self._environment = _environment(os.environ, may_fetch=may_fetch)

    def at(self, folder: str | Path) -> Git:
        """Return git in another directory, with the same timeout."""
        other = copy.copy(self)
        other.folder = folder
        return other

    def without_filters(self) -> Git:
        """Return git in the same directory without clean filters, which run programs.

        A repository names its filters freely, so each is looked up and set to none.
        """
        other = copy.copy(self)
        named = self.maybe("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
        for name in dict.fromkeys(named.split("\0")):
            if name:
                value = "false" if name.endswith(".required") else ""
                other._environment = _with_setting(other._environment, name, value)
        return other

    def ask(self, *words: str, most_bytes: int = _MOST_BYTES, stdin: bytes = b"") -> bytes:
        """Return what git prints.

        Args:
            words: The command and its arguments.
            most_bytes: It may print.
            stdin: What it reads.

        Raises:
            TooMuch: It printed more.
            GitFailed: It is not installed, refused, or took too long.
        """
        # In a session of its own: its children have no terminal to ask for a password, and end with it.
        command = Command((self._program, *_ALWAYS, *words), os.fspath(self.folder), self._environment)
        try:
            done = run_to_end(command, timeout_secs=self._deadline - time.monotonic(), limit_bytes=most_bytes,
                              stdin=stdin)
        except OSError as error:
            raise GitFailed(f"cannot run git: {error.strerror or error}") from None
        except TooMuchOutput:
            raise TooMuch(f"git {words[0]} printed more than {most_bytes:,} bytes") from None
        except TimedOut:
            raise GitFailed(f"git {words[0]} took too long") from None
        if done.exit_code:
            raise GitFailed(_first_line(done.err, words[0]))
        return done.out

    def text(self, *words: str) -> str:
        """Return the output of git as text without the last line break; raises as `ask`."""
        return self.ask(*words).decode("utf-8", "replace").strip("\n")

    def maybe(self, *words: str) -> str:
        """Return the output of git, or "" if it fails."""
        with contextlib.suppress(GitFailed):
            return self.text(*words)
        return ""

    def names(self, *words: str) -> list[str]:
        """Return the NUL-terminated paths that git prints; raises as `ask`."""
        return [os.fsdecode(name) for name in self.ask(*words).split(b"\0") if name]


def _environment(known: Mapping[str, str], *, may_fetch: bool) -> dict[str, str]:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_ASKPASS": "true",
             "SSH_ASKPASS": "true", "GCM_INTERACTIVE": "never"}
    if not may_fetch:
        # A partial clone would fetch missing objects.
        quiet |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    return {**{name: value for name, value in known.items() if name not in _LEFT_OUT}, **quiet}


def _with_setting(environment: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """Return an environment with a git setting; unlike `-c`, it allows an equals sign in the name."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    number = int(count) if count.isdecimal() else 0
    return {**environment, "GIT_CONFIG_COUNT": str(number + 1), f"GIT_CONFIG_KEY_{number}": name,
            f"GIT_CONFIG_VALUE_{number}": value}


def _first_line(said: bytes, verb: str) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else f"git {verb} failed"


def all_but(paths: Sequence[str]) -> list[str]:
    """Return pathspecs that exclude these paths, for use after the `--` of a command.

    Example:
        >>> all_but(["a*.bin"])
        ['.', ':(exclude,top,literal)a*.bin']
    """
    return [".", *(f":(exclude,top,literal){path}" for path in paths)] if paths else []
