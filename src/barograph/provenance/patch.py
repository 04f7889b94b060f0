"""Hides secrets in git patches, and restores hidden context lines from the commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from barograph.provenance.secrets import MARK, Secrets

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEW = re.compile(rb'\+\+\+ (?:"b/(?P<quoted>.*)"|b/(?P<plain>.*?))\t?$')
_OLD = re.compile(rb'--- (?:"a/(?P<quoted>.*)"|a/(?P<plain>.*?))\t?$')


def hide_in_patch(patch: bytes, secrets: Secrets) -> tuple[bytes, list[str]]:
    """Return the patch without secrets, and the files with a secret in an added line.

    Hidden context lines can be restored from the commit, see `refilled`. The number of lines stays the same.

    Args:
        patch: Output of `git diff`.
        secrets: Secrets to hide.
    """
    text = patch.decode("latin-1")
    # In bytes, so that binary content survives; secrets are ASCII.
    hidden = secrets.hide(text).encode("latin-1")
    if hidden == patch:
        return patch, []
    before, after = patch.split(b"\n"), hidden.split(b"\n")
    found: dict[str, None] = {}
    for at, (file, _) in enumerate(_walk(before)):
        if at < len(after) and before[at] != after[at]:
            if not file or before[at][:1] not in (b"+", b"-", b" "):
                # A name, or compressed bytes that look like a secret: changing them would break the patch.
                after[at] = before[at]
            elif after[at][:1] != before[at][:1]:
                after[at] = before[at][:1] + MARK.encode()
            if file and before[at][:1] == b"+" and before[at] != after[at]:
                found[file] = None
    return b"\n".join(after), list(found)


def refilled(patch: bytes, old_lines: Callable[[str], list[bytes]]) -> bytes:
    """Return the patch with hidden context lines restored from the commit.

    Args:
        patch: From `hide_in_patch`.
        old_lines: Returns the lines of a file in the commit.
    """
    lines = patch.split(b"\n")
    known: dict[str, list[bytes]] = {}
    for at, (file, old) in enumerate(_walk(lines)):
        if old and lines[at][:1] in (b"-", b" ") and MARK.encode() in lines[at]:
            if file not in known:
                known[file] = old_lines(file)
            if old <= len(known[file]):
                lines[at] = lines[at][:1] + known[file][old - 1]
    return b"\n".join(lines)


def paths_in(patch: bytes) -> list[str]:
    """Return every path in a patch, as written."""
    found: dict[str, None] = {}
    lines = patch.split(b"\n")
    for line, (file, _) in zip(lines, _walk(lines), strict=True):
        if not file:
            found |= dict.fromkeys(_names(line))
    return list(found)


def _names(line: bytes) -> Iterator[str]:
    for shape in (_OLD, _NEW):
        match = shape.match(line)
        if match:
            yield _path(match)
    if line.startswith((b"rename from ", b"rename to ", b"copy from ", b"copy to ")):
        yield line.split(b" ", 2)[2].decode("utf-8", "surrogateescape")
    if line.startswith(b"diff --git "):
        head = line[len(b"diff --git "):]
        first = re.match(rb'(?:"a/(?P<quoted>[^"]*)"|a/(?P<plain>.*?)) "?b/', head)
        if first:
            yield _path(first)


def _walk(lines: list[bytes]) -> Iterator[tuple[str, int]]:
    """Yield for each line the file of its hunk ("": none) and its number in the old file (0: none)."""
    file, old, left_old, left_new = "", 0, 0, 0
    for line in lines:
        if left_old > 0 or left_new > 0:
            sign = line[:1]
            if sign == b"\\":
                yield file, 0
                continue
            is_old, is_new = sign in (b" ", b"-", b""), sign in (b" ", b"+", b"")
            yield file, old if is_old else 0
            old, left_old, left_new = old + is_old, left_old - is_old, left_new - is_new
            continue
        hunk = _HUNK.match(line)
        if hunk:
            old = int(hunk[1])
            left_old, left_new = (1 if hunk[at] is None else int(hunk[at]) for at in (2, 4))
        elif line.startswith(b"diff --git "):
            file = ""
        else:
            named = _NEW.match(line)
            file = _path(named) if named else file
        yield "", 0


def _path(match: re.Match[bytes]) -> str:
    if match["quoted"] is not None:
        return match["quoted"].decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
    return match["plain"].decode("utf-8", "surrogateescape")
