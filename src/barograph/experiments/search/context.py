"""Finds which syntax can come next in an unfinished search, from its tokens up to the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from barograph.errors import SearchError
from barograph.experiments.search.tokens import Token, TokenKind, tokens_of

_COMPARES = frozenset({"contains", "like", "matches", "regex"})
_SIGNS = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">=", "~", "=~"})


class Expected(Enum):
    """Syntax that can come next in a search."""

    CONDITION = auto()
    """A field, a function, `not` or a parenthesis."""
    OPERATOR = auto()
    """An operator after a field."""
    VALUE = auto()
    CONNECTIVE = auto()
    """`and`, `or`, `order by`, `limit`."""
    LIST = auto()
    """The parenthesis of a list of values."""
    NULL = auto()
    """`null` or `not null`."""
    BY = auto()
    """The `by` of `order by`."""
    ORDER = auto()
    """A field to sort by."""
    DIRECTION = auto()
    """`asc`, `desc` or a comma."""
    NOTHING = auto()
    """Nothing that can be suggested."""


@dataclass(frozen=True, slots=True)
class Context:
    """The syntax expected at the cursor, and the part of it that is already typed.

    Attributes:
        expected: Syntax that can come next.
        start: Position where the typed part begins.
        typed: The typed part, without quotes.
        field: Path of the field that is compared or typed; () if none.
        function: Name of the function whose argument may follow; "" if none.
    """

    expected: Expected
    start: int
    typed: str
    field: tuple[str, ...] = ()
    function: str = ""


def context_at(text: str, position: int) -> Context:
    """Return what may follow at a position of a search.

    Args:
        text: The search; it may be unfinished or invalid after the position.
        position: Position of the cursor, from 0.

    Example:
        >>> context_at("params.lr < 1 and metrics.lo", 28).field
        ('metrics', 'lo')
        >>> context_at("state = 'fin", 12)
        Context(expected=<Expected.VALUE: 3>, start=8, typed='fin', field=('state',), function='')
    """
    before = text[:position]
    try:
        tokens = tokens_of(before)[:-1]
    except SearchError as error:
        at = error.position or 0
        if before[at] in "'\"":
            walk = _Walk(tokens_of(before[:at])[:-1])
            if walk.dotted:
                # The quoted name of a parameter: params."va
                return Context(walk.came_from, walk.begin, before[walk.begin:], (*walk.field[:-1], before[at + 1:]))
            expected = Expected.NOTHING if walk.expected is Expected.CONDITION else walk.expected
            return Context(expected, at, before[at + 1:], walk.field, walk.function)
        if at < len(before) - 1:
            return Context(Expected.NOTHING, position, "")
        tokens = tokens_of(before[:at])[:-1]
        return Context(_Walk(tokens).expected, at, before[at:], _Walk(tokens).field)
    if not tokens or before[-1].isspace():
        walk = _Walk(tokens)
        return Context(walk.expected, position, "", walk.field, walk.function)
    return _at_last_token(before, tokens)


def _at_last_token(before: str, tokens: list[Token]) -> Context:
    """Return the context if the cursor touches the last token."""
    walk, last = _Walk(tokens), tokens[-1]
    if walk.is_open:
        return Context(walk.came_from, walk.begin, before[walk.begin:], walk.field)
    if last.kind is TokenKind.SIGN and last.text in ("(", ")", ",", "]"):
        return Context(walk.expected, len(before), "", walk.field, walk.function)
    earlier = _Walk(tokens[:-1])
    if last.kind is TokenKind.SIGN:
        return Context(earlier.expected, last.position, last.text, earlier.field)
    return Context(earlier.expected, last.position, last.text, earlier.field, earlier.function)


class _Walk:
    """Follows the tokens of a search that may end anywhere.

    Attributes:
        expected: Syntax that can come after the last token.
        field: The last field.
        begin: Position of the last field.
        is_open: Whether the last token belongs to a field that may continue.
        dotted: Whether that field ends with a dot.
        came_from: What was expected where that field began.
        function: Function whose argument may follow.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.expected, self.came_from = Expected.CONDITION, Expected.CONDITION
        self.field: tuple[str, ...] = ()
        self.begin = 0
        self.is_open = self.dotted = False
        self.function = ""
        self._lists = 0
        self._tokens, self._at = tokens, 0
        while self._at < len(tokens):
            self._step()

    def _step(self) -> None:
        token = self._tokens[self._at]
        word = token.text.lower() if token.kind is TokenKind.WORD else ""
        self._at += 1
        self.is_open = self.dotted = False
        match self.expected:
            case Expected.CONDITION:
                self._condition(token, word)
            case Expected.ORDER:
                self._take_field(token, Expected.ORDER, Expected.DIRECTION)
            case Expected.OPERATOR:
                self._operator(token, word)
            case Expected.VALUE:
                self._value(token)
            case Expected.LIST:
                self.expected, self._lists = Expected.VALUE, 1
            case Expected.NULL:
                self.expected = Expected.NULL if word == "not" else Expected.CONNECTIVE
            case Expected.BY:
                self.expected = Expected.ORDER
            case Expected.DIRECTION:
                self.expected = Expected.ORDER if token.text == "," else Expected.DIRECTION
            case Expected.CONNECTIVE:
                self._connective(token, word)
            case Expected.NOTHING:
                pass

    def _condition(self, token: Token, word: str) -> None:
        if token.text == "(" or word == "not":
            return
        if word == "order":
            self.expected = Expected.BY
            return
        if token.kind is TokenKind.WORD and self._is_next("("):
            self._at += 1
            if word != "exists":
                self.function, self.expected, self._lists = word, Expected.VALUE, 1
            return
        self._take_field(token, Expected.CONDITION, Expected.OPERATOR)

    def _take_field(self, token: Token, origin: Expected, then: Expected) -> None:
        parts, self.begin, self.came_from = [token.text], token.position, origin
        while self._is_next(".", "["):
            self._at += 1
            if self._at == len(self._tokens):
                parts.append("")
                self.dotted = True
                break
            parts.append(self._tokens[self._at].text)
            self._at += 1
            if self._is_next("]"):
                self._at += 1
        self.field, self.expected = tuple(parts), then
        self.is_open = self._at == len(self._tokens)

    def _operator(self, token: Token, word: str) -> None:
        if token.text in _SIGNS or word in _COMPARES:
            self.expected = Expected.VALUE
        elif word == "in":
            self.expected = Expected.LIST
        elif word == "is":
            self.expected = Expected.NULL
        elif word == "exists" or token.text == ")":
            self.expected = Expected.CONNECTIVE
        elif word != "not":
            self._connective(token, word)

    def _value(self, token: Token) -> None:
        if not self._lists:
            self.expected = Expected.CONNECTIVE
        elif token.text == ")" and token.kind is TokenKind.SIGN:
            self.expected, self._lists, self.function = Expected.CONNECTIVE, 0, ""

    def _connective(self, token: Token, word: str) -> None:
        if word in ("and", "or"):
            self.expected = Expected.CONDITION
        elif word == "order":
            self.expected = Expected.BY
        elif token.text != ")":
            self.expected = Expected.NOTHING
        else:
            self.expected = Expected.CONNECTIVE

    def _is_next(self, *signs: str) -> bool:
        following = self._tokens[self._at] if self._at < len(self._tokens) else None
        return following is not None and following.kind is TokenKind.SIGN and following.text in signs
