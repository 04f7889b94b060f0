"""Tokenizer of searches."""

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
    """Type of a token."""

    WORD = auto()
    TEXT = auto()
    NUMBER = auto()
    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """A token of a search.

    Attributes:
        kind: Type of the token.
        text: Source text; for a string, without its quotes.
        position: Position of its first character, from 0.
    """

    kind: TokenKind
    text: str
    position: int


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a search, followed by an `END`.

    Raises:
        SearchError: An unexpected character, or an unterminated string.

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
    """Return an error that points at a position in a search.

    Example:
        >>> print(error_at("lr < < 1", 5, "expected a value"))
        Cannot parse the search: expected a value.
          lr < < 1
               ^
    """
    begin = text.rfind("\n", 0, position) + 1
    line = text[begin:].split("\n", 1)[0]
    error = SearchError(f"Cannot parse the search: {message}.\n  {line}\n  {' ' * (position - begin)}^")
    error.position = position
    return error


def _unquoted(piece: str) -> str:
    if piece[0] == "'":
        return piece[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.DOTALL)
