"""A search as words, numbers, texts and signs."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from barograph.errors import SearchError

_NUMBER = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf\b|nan\b)"
_TOKEN = re.compile(rf"""
    (?P<space>\s+)
  | (?P<text>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")
  | (?P<number>(?<![\w.]){_NUMBER}(?![\w]))
  | (?P<word>[^\W\d][\w-]*(?<!-))
  | (?P<sign><=|>=|!=|<>|==|=~|[=<>~(),.\[\]])
""", re.VERBOSE)


class TokenKind(Enum):
    """What a token is."""

    WORD = auto()
    TEXT = auto()
    NUMBER = auto()
    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """A piece of a search.

    Attributes:
        kind: What it is.
        text: As it was written; of a text what stands between its quotation marks.
        position: Of its first character, from 0.
    """

    kind: TokenKind
    text: str
    position: int


def tokens_of(text: str) -> list[Token]:
    """Return the pieces of a search, and an `END` after the last.

    Raises:
        SearchError: There is something in it that is no piece of any; or a text that does not end.

    Example:
        >>> [token.text for token in tokens_of("params.lr < 1e-2")]
        ['params', '.', 'lr', '<', '1e-2', '']
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text[position] in "'\"":
                raise error_at(text, position, "unterminated string")
            raise error_at(text, position, f"unexpected {text[position]!r}")
        kind, piece = match.lastgroup, match.group()
        if kind == "text":
            found.append(Token(TokenKind.TEXT, _unquoted(piece), position))
        elif kind != "space":
            found.append(Token(TokenKind[str(kind).upper()], piece, position))
        position = match.end()
    return [*found, Token(TokenKind.END, "", len(text))]


def error_at(text: str, position: int, message: str) -> SearchError:
    """Return an error that points at a place in a search.

    Example:
        >>> print(error_at("lr < < 1", 5, "here a value must stand"))
        The search is not understood: here a value must stand.
          lr < < 1
               ^
    """
    begin = text.rfind("\n", 0, position) + 1
    line = text[begin:].split("\n", 1)[0]
    return SearchError(f"Cannot parse the search: {message}.\n  {line}\n  {' ' * (position - begin)}^")


def _unquoted(piece: str) -> str:
    if piece[0] == "'":
        return piece[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.DOTALL)
