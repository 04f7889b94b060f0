"""The differences between the code of two runs, as lines to show: commits, and changes that were not committed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.origin import Code, Origin
from barograph.model.plain import plain
from barograph.runs.state.origins import read_file
from barograph.store.base import Store

MOST_LINES = 2000
_HEAD = re.compile(rb"^diff --git ", re.MULTILINE)
_NAME = re.compile(r"^(?:\+\+\+ b/|rename to )(.+)$|^diff --git a/(.+) b/\2$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file whose uncommitted changes differ between two runs.

    Attributes:
        path: Path from the root of the repository.
        only: "first" or "second" if one run alone changed it; "" if both did.
        lines: The changes of the one run; if both changed it, how the changes differ, as a unified diff.
    """

    path: str
    only: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeDifference:
    """Differences between the code of two runs.

    Attributes:
        commits: Commits of both; "" if unknown.
        files: Files whose uncommitted changes differ.
        left_out: Number of lines beyond `MOST_LINES`.
        problem: Why it is not known, or not completely; "" if it is.
    """

    commits: tuple[str, str]
    files: tuple[FileDifference, ...]
    left_out: int = 0
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def code_difference(
    first: tuple[Store, Origin | None], second: tuple[Store, Origin | None]
) -> CodeDifference:
    """Return the differences between the code of two runs.

    Args:
        first, second: Store and origin of each run.
    """
    codes = [origin.code if origin is not None else None for _, origin in (first, second)]
    one, other = codes
    if one is None or other is None:
        return CodeDifference(("", ""), (), problem="The code of a run was not recorded: it was in no git repository.")
    commits = one.commit, other.commit
    try:
        changes = [_changes(store, code) for (store, _), code in ((first, one), (second, other))]
    except DamagedChunk as error:
        return CodeDifference(commits, (), problem=str(error))
    files, left_out = _limited([file for path in sorted({*changes[0], *changes[1]})
                                if (file := _difference(path, *changes)) is not None])
    untracked = "Their untracked files differ." if one.untracked != other.untracked else ""
    return CodeDifference(commits, files, left_out, untracked)


def _changes(store: Store, code: Code) -> dict[str, str]:
    """Return the uncommitted changes by path."""
    if not code.diff:
        return {}
    try:
        data = read_file(store, code.diff)
    except ObjectNotFound:
        raise DamagedChunk(f"A file with the run's code is missing ({code.diff} in {store.url}).") from None
    starts = [found.start() for found in _HEAD.finditer(data)]
    parts = [data[start:end].decode("utf-8", "replace") for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return {_path(part): part for part in parts}


def _path(part: str) -> str:
    found = [next(filter(None, match)) for match in _NAME.findall(part)]
    return found[-1] if found else part.partition("\n")[0].removeprefix("diff --git ")


def _difference(path: str, first: Mapping[str, str], second: Mapping[str, str]) -> FileDifference | None:
    here, there = first.get(path), second.get(path)
    if here == there:
        return None
    if here is None or there is None:
        return FileDifference(path, "second" if here is None else "first", tuple(_hunks(here or there or "")))
    lines = list(difflib.unified_diff(_hunks(here), _hunks(there), "first", "second", n=3, lineterm=""))
    return FileDifference(path, "", tuple(lines[2:])) if lines else None


def _hunks(part: str) -> list[str]:
    """Return the lines from the first hunk on; without hunks, as of a binary file, all lines."""
    lines = part.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("@@")), 0)
    return lines[start:]


def _limited(files: list[FileDifference]) -> tuple[tuple[FileDifference, ...], int]:
    shown: list[FileDifference] = []
    room, left_out = MOST_LINES, 0
    for file in files:
        lines = file.lines[:room]
        left_out += len(file.lines) - len(lines)
        room -= len(lines)
        shown.append(FileDifference(file.path, file.only, lines))
    return tuple(shown), left_out
