"""What a search says, as a tree: conditions, an order, how many."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Literal = float | int | str | bool | None
"""A value in a search; times are texts."""


class Operator(StrEnum):
    """How a field is held against values."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    IN = "in"
    CONTAINS = "contains"
    """The text is part of it, in letters of either case."""
    LIKE = "like"
    """As in SQL: % stands for any text, _ for any character."""
    MATCHES = "~"
    """A regular expression is found in it."""
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class Field:
    """What is asked of an item.

    Attributes:
        path: Its parts: ("name",), ("params", "lr"), ("metrics", "val/loss", "min").
        position: Where it stands in the text, from 0.
    """

    path: tuple[str, ...]
    position: int

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else f'"{part}"' for part in self.path)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field held against values.

    Attributes:
        field: What.
        operator: How.
        values: One; of `IN` any number, of `EXISTS` none.
        position: Of the first value, or of the operator.
    """

    field: Field
    operator: Operator
    values: tuple[Literal, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Call:
    """A condition that is written as a function.

    Attributes:
        name: `finding`, `derived_from` …
        arguments: What it was given.
        position: Where it stands.
    """

    name: str
    arguments: tuple[Literal, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that must not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Conditions that must all hold."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Conditions of which one must hold."""

    conditions: tuple[Condition, ...]


Condition = Comparison | Call | Not | And | Or


@dataclass(frozen=True, slots=True)
class Order:
    """By what the answers are sorted.

    Attributes:
        field: What.
        descending: The greatest first.
    """

    field: Field
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """A whole search.

    Attributes:
        condition: What must hold; None: everything will do.
        orders: The first counts most. None: the newest first.
        limit: Most answers; None: all.
        offset: Answers to pass over.
        text: As it was written.
    """

    condition: Condition | None
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    text: str = ""
