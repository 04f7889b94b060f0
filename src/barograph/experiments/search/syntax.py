"""Syntax tree of a search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Literal = float | int | str | bool | None
"""A value in a search; times are strings."""


class Operator(StrEnum):
    """Comparison operators."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    IN = "in"
    CONTAINS = "contains"
    """Contains the text, ignoring case."""
    LIKE = "like"
    """As in SQL: % matches any text, _ any character."""
    MATCHES = "~"
    """Matches a regular expression."""
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an item.

    Attributes:
        path: Its parts: ("name",), ("params", "lr"), ("metrics", "val/loss", "min").
        position: Position in the text, from 0.
    """

    path: tuple[str, ...]
    position: int

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else f'"{part}"' for part in self.path)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a field with values.

    Attributes:
        field: The field.
        operator: The operator.
        values: One; any number for `IN`, none for `EXISTS`.
        position: Position of the first value, or of the operator.
    """

    field: Field
    operator: Operator
    values: tuple[Literal, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function call as a condition.

    Attributes:
        name: `finding`, `derived_from` …
        arguments: Arguments.
        position: Position in the text, from 0.
    """

    name: str
    arguments: tuple[Literal, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction."""

    conditions: tuple[Condition, ...]


Condition = Comparison | Call | Not | And | Or


@dataclass(frozen=True, slots=True)
class Order:
    """Sort order of the results.

    Attributes:
        field: The field to sort by.
        descending: Greatest first.
    """

    field: Field
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """A complete search.

    Attributes:
        condition: None: everything matches.
        orders: Most significant first. Empty: newest first.
        limit: Maximum number of results; None: all.
        offset: Number of results to skip.
        text: Source text.
    """

    condition: Condition | None
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    text: str = ""
