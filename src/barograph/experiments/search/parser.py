"""Parser of searches.

    search     = [condition] ["order" "by" order ("," order)*] ["limit" N] ["offset" N]
    condition  = all ("or" all)*
    all        = one ("and" one)*
    one        = "not" one | "(" condition ")" | call | comparison
    call       = NAME "(" [value ("," value)*] ")"
    comparison = field (OPERATOR value | ["not"] "in" "(" value ("," value)* ")" | ["not"] "exists"
                        | ["not"] ("contains" | "like" | "matches") value | "is" ["not"] "null" | nothing)
             | "exists" "(" field ")"
    field      = NAME ("." NAME | "." TEXT | "[" TEXT "]")*
    order      = field ["asc" | "desc"]

A field alone must be true: `starred and not archived`. `and` binds tighter than `or`. Keywords ignore case.
"""

from __future__ import annotations

from barograph.errors import SearchError
from barograph.experiments.search.syntax import (
    And,
    Call,
    Comparison,
    Condition,
    Field,
    Literal,
    Not,
    Operator,
    Or,
    Order,
    Search,
)
from barograph.experiments.search.tokens import Token, TokenKind, error_at, tokens_of

MOST_CHARS = 100_000
_DEEPEST = 100
_MOST_PARTS = 900
"""Maximum number of comparisons and values: databases limit nesting to 1,000 levels, and chains of `and` nest."""
_LONGEST_WHOLE = 18
_SIGNS = {
    "=": Operator.EQUAL, "==": Operator.EQUAL, "!=": Operator.UNEQUAL, "<>": Operator.UNEQUAL, "<": Operator.LESS,
    "<=": Operator.LESS_EQUAL, ">": Operator.GREATER, ">=": Operator.GREATER_EQUAL, "~": Operator.MATCHES,
    "=~": Operator.MATCHES,
}
_WORDS = {"contains": Operator.CONTAINS, "like": Operator.LIKE, "matches": Operator.MATCHES, "regex": Operator.MATCHES}
_CONSTANTS: dict[str, Literal] = {"true": True, "false": False, "null": None, "none": None}
_RESERVED = frozenset({"and", "or", "not", "in", "is", "exists", "order", "limit", "offset", "asc", "desc", "by",
                       *_WORDS, *_CONSTANTS})


def search_from_text(text: str) -> Search:
    """Parse a search.

    Args:
        text: The search; "": everything.

    Raises:
        SearchError: It is invalid; the message points at the place.

    Example:
        >>> search_from_text("params.lr < 0.01 order by metrics.acc.last desc limit 20").limit
        20
    """
    if len(text) > MOST_CHARS:
        raise SearchError(f"The search has {len(text):,} characters; the limit is {MOST_CHARS:,}.")
    return _Parser(text).search()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0
        self._parts = 0

    def search(self) -> Search:
        condition = None if self._is_end_or("order", "limit", "offset") else self._either()
        orders: list[Order] = []
        if self._take_word("order"):
            if not self._take_word("by"):
                raise self._expected('"by"')
            orders.append(self._order())
            while self._take_sign(","):
                orders.append(self._order())
        limit = self._whole("limit")
        offset = self._whole("offset")
        if self._now.kind is not TokenKind.END:
            raise self._expected('"and", "or", "order by", "limit", "offset" or the end')
        return Search(condition, tuple(orders), limit, offset or 0, self._text)

    def _either(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise error_at(self._text, self._now.position, f"parentheses nest deeper than {_DEEPEST} levels")
        found = [self._all()]
        while self._take_word("or"):
            found.append(self._all())
        self._depth -= 1
        return found[0] if len(found) == 1 else Or(tuple(found))

    def _all(self) -> Condition:
        found = [self._one()]
        while self._take_word("and"):
            found.append(self._one())
        return found[0] if len(found) == 1 else And(tuple(found))

    def _one(self) -> Condition:
        negated = False
        while self._take_word("not"):
            negated = not negated
        if self._take_sign("("):
            inner = self._either()
            self._must_close()
        else:
            inner = self._comparison()
        return Not(inner) if negated else inner

    def _count_part(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise error_at(self._text, self._now.position, f"the search has more than {_MOST_PARTS} comparisons and "
                                                           "values; split it")

    def _comparison(self) -> Condition:
        self._count_part()
        begin = self._now
        if begin.kind is TokenKind.WORD and self._next_is_sign("(") and begin.text.lower() not in _RESERVED:
            return self._call()
        if begin.text.lower() == "exists" and self._next_is_sign("("):
            self._at += 2
            asked = Comparison(self._field(), Operator.EXISTS, (), begin.position)
            self._must_close()
            return asked
        field = self._field()
        if self._now.kind is TokenKind.SIGN and self._now.text in _SIGNS:
            operator = _SIGNS[self._take().text]
            position = self._now.position
            return Comparison(field, operator, (self._value(),), position)
        if self._take_word("is"):
            missing = not self._take_word("not")
            if not (self._take_word("null") or self._take_word("none")):
                raise self._expected('"null"')
            there = Comparison(field, Operator.EXISTS, (), begin.position)
            return Not(there) if missing else there
        negated = self._take_word("not")
        found = self._word_comparison(field)
        if found is None:
            if negated:
                raise self._expected('"in", "contains", "like", "matches" or "exists"')
            return Comparison(field, Operator.EQUAL, (True,), begin.position)
        return Not(found) if negated else found

    def _word_comparison(self, field: Field) -> Comparison | None:
        position = self._now.position
        if self._take_word("exists"):
            return Comparison(field, Operator.EXISTS, (), position)
        if self._take_word("in"):
            if not self._take_sign("("):
                raise self._expected('"(" and comma-separated values')
            return Comparison(field, Operator.IN, self._values(), position)
        word = self._now.text.lower() if self._now.kind is TokenKind.WORD else ""
        if word in _WORDS:
            self._take()
            position = self._now.position
            return Comparison(field, _WORDS[word], (self._value(),), position)
        return None

    def _call(self) -> Call:
        name = self._take()
        self._take()
        arguments = () if self._take_sign(")") else self._values()
        return Call(name.text.lower(), arguments, name.position)

    def _values(self) -> tuple[Literal, ...]:
        found = [self._value()]
        while self._take_sign(","):
            found.append(self._value())
        self._must_close()
        return tuple(found)

    def _value(self) -> Literal:
        self._count_part()
        token = self._now
        word = token.text.lower()
        if token.kind is TokenKind.TEXT:
            return self._take().text
        if token.kind is TokenKind.NUMBER:
            self._take()
            # Longer integers exceed those of a database.
            return int(word) if word.lstrip("+-").isdigit() and len(word) <= _LONGEST_WHOLE else float(word)
        if token.kind is TokenKind.WORD and word in _CONSTANTS:
            self._take()
            return _CONSTANTS[word]
        if token.kind is TokenKind.WORD:
            raise error_at(self._text, token.position, f"expected a value; write a string as '{token.text}'")
        raise self._expected("a value: a number, a 'string', true or false")

    def _field(self) -> Field:
        first = self._now
        if first.kind is not TokenKind.WORD or first.text.lower() in _RESERVED:
            raise self._expected("a field, such as name, params.lr or metrics.loss.min")
        parts = [self._take().text]
        while True:
            if self._take_sign("."):
                if self._now.kind not in (TokenKind.WORD, TokenKind.TEXT):
                    raise self._expected('the rest of the name; put special names in "…"')
                parts.append(self._take().text)
            elif self._take_sign("["):
                if self._now.kind is not TokenKind.TEXT:
                    raise self._expected("a 'name'")
                parts.append(self._take().text)
                if not self._take_sign("]"):
                    raise self._expected('"]"')
            else:
                return Field(tuple(parts), first.position)

    def _order(self) -> Order:
        field = self._field()
        if self._take_word("desc"):
            return Order(field, descending=True)
        self._take_word("asc")
        return Order(field)

    def _whole(self, word: str) -> int | None:
        if not self._take_word(word):
            return None
        token = self._now
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            raise self._expected("an integer")
        # Larger than any catalog, and fits into a database integer.
        return int(self._take().text[:_LONGEST_WHOLE])

    def _must_close(self) -> None:
        if not self._take_sign(")"):
            raise self._expected('")"')

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take_word(self, word: str) -> bool:
        taken = self._now.kind is TokenKind.WORD and self._now.text.lower() == word
        self._at += taken
        return taken

    def _take_sign(self, sign: str) -> bool:
        taken = self._now.kind is TokenKind.SIGN and self._now.text == sign
        self._at += taken
        return taken

    def _next_is_sign(self, sign: str) -> bool:
        following = self._tokens[self._at + 1]
        return following.kind is TokenKind.SIGN and following.text == sign

    def _is_end_or(self, *words: str) -> bool:
        return self._now.kind is TokenKind.END or (
            self._now.kind is TokenKind.WORD and self._now.text.lower() in words
        )

    def _expected(self, what: str) -> SearchError:
        found = f", found {self._now.text!r}" if self._now.kind is not TokenKind.END else ""
        return error_at(self._text, self._now.position, f"expected {what}{found}")
