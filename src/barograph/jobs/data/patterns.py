"""Patterns of names: "data/*.csv", "data/**/part-?.parquet", "data/[ab]*"."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

_SPECIAL = re.compile(r"[*?\[]")


def is_pattern(text: str) -> bool:
    """Return whether a path contains "*", "?" or "["."""
    return _SPECIAL.search(text) is not None


def split_pattern(text: str) -> tuple[str, str]:
    """Return the directory before the first part with a special character, and the pattern below it.

    Example:
        >>> split_pattern("/data/2026/*/part-?.csv")
        ('/data/2026', '*/part-?.csv')
        >>> split_pattern("/*.csv")
        ('/', '*.csv')
    """
    parts = text.split("/")
    first = next(at for at, part in enumerate(parts) if is_pattern(part))
    return "/".join(parts[:first]) or ("/" if first else ""), "/".join(parts[first:])


class Pattern:
    """A pattern of names, as a shell expands it. It also matches everything in a directory that it matches.

    "*" and "?" match neither "/" nor a leading "."; "**" matches any number of directories.

    Example:
        >>> [Pattern("a/*.csv").matches(name) for name in ("a/b.csv", "a/b/c.csv", "a/.csv", "a/b.csv/c")]
        [True, False, False, True]
        >>> [Pattern("**/*.csv").matches(name) for name in ("a.csv", "a/b/c.csv", "a/.b/c.csv")]
        [True, True, False]
    """

    def __init__(self, text: str) -> None:
        self._matchers = [None if part == "**" else _matcher(part) for part in text.split("/") if part]

    def matches(self, name: str) -> bool:
        """Return whether a name, or one of the directories that contain it, matches."""
        return self._match(name.split("/"), self._matchers)

    def _match(self, parts: Sequence[str], matchers: Sequence[re.Pattern[str] | None]) -> bool:
        if not matchers:
            return True
        if not parts:
            return matchers == [None]
        first = matchers[0]
        if first is not None:
            return first.match(parts[0]) is not None and self._match(parts[1:], matchers[1:])
        if len(matchers) == 1:
            return not any(part.startswith(".") for part in parts)
        return self._match(parts, matchers[1:]) or (not parts[0].startswith(".") and self._match(parts[1:], matchers))


def _matcher(part: str) -> re.Pattern[str]:
    hidden = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(hidden + fnmatch.translate(part))
