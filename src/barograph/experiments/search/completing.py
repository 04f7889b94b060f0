"""Completes a search while it is typed, and says where it is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from barograph.errors import SearchError
from barograph.experiments.schema import FINDINGS, ITEMS, METRICS, NAMES, PARAMETERS, TAGS
from barograph.experiments.search.compiling import CALLS, Compiler
from barograph.experiments.search.context import Context, Expected, context_at
from barograph.experiments.search.fields import GROUPS, FieldKind, ItemField, NamedField, known_field
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import Field
from barograph.experiments.search.writing_fields import field_text, value_text
from barograph.experiments.writing import BOOLEAN, WHOLE, storable_name
from barograph.model.items import STATISTICS, ItemKind

MOST = 30
"""Maximum number of completions."""

_TABLES = {"params": PARAMETERS, "metrics": METRICS, "tags": TAGS}
_WHAT = {"params": "parameter", "metrics": "metric, last value", "tags": "tag"}
_OPERATORS = {
    FieldKind.NUMBER: ("=", "!=", "<", "<=", ">", ">=", "in", "exists"),
    FieldKind.TEXT: ("=", "!=", "contains", "like", "matches", "in", "exists"),
    FieldKind.TIME: (">", "<", ">=", "<="),
    FieldKind.BOOLEAN: ("=", "and", "or"),
}
_MEANINGS = {"contains": "contains this text, any case", "like": "% is any text, _ any character",
             "matches": "regular expression", "in": "one of several values", "exists": "has any value"}
_FIELDS = {"name": "name of the run", "state": "running, finished, failed …", "created": "time", "started": "time",
           "ended": "time", "duration": "seconds", "steps": "number of steps", "starred": "true or false",
           "archived": "true or false", "experiment": "name", "trial": "name", "notes": "text", "host": "machine",
           "user": "who started it", "message": "why it ended", "command": "command line", "code.commit": "git commit",
           "code.branch": "git branch", "code.dirty": "uncommitted changes", "place": "path or URL", "id": "unique"}
_TIMES = ("today", "yesterday", "3 days ago", "1 week ago")
_NAMED_ITEMS = {"experiment": ItemKind.EXPERIMENT, "trial": ItemKind.TRIAL}


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion.

    Attributes:
        text: Text that replaces the typed part.
        detail: What it is, in a few words.
    """

    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Completions:
    """Completions at the cursor.

    Attributes:
        start: Position where the typed part begins, which a completion replaces up to the cursor.
        items: Best first.
    """

    start: int
    items: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a search is invalid.

    Attributes:
        message: One sentence.
        start, stop: The place in the text; equal at its end.
    """

    message: str
    start: int
    stop: int


def problem_in(text: str, *, now_unix: float) -> Problem | None:
    """Return why a search is invalid, and where; None if it is valid."""
    try:
        search = search_from_text(text)
        compiler = Compiler(text, lambda name: 0, now_unix)
        if search.condition is not None:
            compiler.condition(search.condition)
        for order in search.orders:
            known_field(order.field, text)
    except SearchError as error:
        start = error.position or 0
        word = text[start:].split(maxsplit=1)[:1] if text[start:start + 1].strip() else []
        return Problem(str(error).partition("\n")[0], start, start + len(word[0]) if word else start)
    return None


def completions_at(connection: Connection, text: str, position: int) -> Completions:
    """Return the completions at a position of a search.

    Args:
        connection: Connection to the catalog, whose names and values are suggested.
        text: The search; it may be unfinished.
        position: Position of the cursor, from 0.
    """
    context = context_at(text, position)
    found = _Completing(connection, context).found()
    typed = context.typed.lower()
    fitting = [item for item in found if item.text != context.typed]
    return Completions(context.start, tuple(sorted(fitting, key=lambda item: _rank(item.text, typed))[:MOST]))


def _rank(text: str, typed: str) -> int:
    lowered = text.lower()
    last = lowered.partition(".")[2].lstrip('"')
    return 0 if lowered.startswith(typed) or last.startswith(typed) else 1


class _Completing:
    def __init__(self, connection: Connection, context: Context) -> None:
        self._connection = connection
        self._context = context

    def found(self) -> list[Completion]:
        typed = self._context.typed.lower()
        match self._context.expected:
            case Expected.CONDITION | Expected.ORDER:
                return list(self._fields())
            case Expected.OPERATOR:
                words: Sequence[str] = _OPERATORS[self._kind()]
            case Expected.VALUE:
                return [Completion(text, detail) for text, detail in self._values() if typed in text.lower()]
            case Expected.CONNECTIVE:
                words = ("and", "or", "order by", "limit")
            case Expected.LIST:
                words = ("(",)
            case Expected.NULL:
                words = ("null", "not null")
            case Expected.BY:
                words = ("by",)
            case Expected.DIRECTION:
                words = ("desc", "asc")
            case Expected.NOTHING:
                words = ()
        return [Completion(word, _MEANINGS.get(word, "")) for word in words if word.startswith(typed)]

    def _fields(self) -> Iterator[Completion]:
        path = self._context.field if self._context.typed else ()
        group = GROUPS.get(path[0].lower(), "") if len(path) > 1 else ""
        if group in _TABLES:
            yield from self._named(group, ".".join(path[1:]))
            return
        typed = self._context.typed.lower()
        yield from (Completion(name, detail) for name, detail in _FIELDS.items() if typed in name)
        for group in _TABLES:
            yield from self._named(group, "" if typed and group.startswith(typed) else typed, most=MOST // 3)
        if self._context.expected is Expected.CONDITION:
            yield from (Completion(f"{name}(", usage.partition(": ")[2]) for name, usage in CALLS.items()
                        if typed in name)
            yield from (Completion("not", "the opposite") for _ in range("not".startswith(typed)))

    def _named(self, group: str, typed: str, most: int = MOST) -> Iterator[Completion]:
        name, dot, rest = typed.rpartition(".")
        if group == "metrics" and dot and any(found == name for found, _ in self._names(group, name, MOST)):
            yield from (Completion(field_text(group, name, statistic)) for statistic in STATISTICS
                        if statistic.startswith(rest))
        for found, count in self._names(group, typed, most):
            yield Completion(field_text(group, found), f"{_WHAT[group]} · {count:,} runs")

    def _names(self, group: str, typed: str, most: int) -> list[tuple[str, int]]:
        table = _TABLES[group]
        count = func.count()
        statement = select(NAMES.c.text, count).select_from(
            table.join(NAMES, NAMES.c.id == table.c.name_id)).where(NAMES.c.text.icontains(typed, autoescape=True))
        rows = self._connection.execute(statement.group_by(NAMES.c.text).order_by(count.desc(), NAMES.c.text)
                                        .limit(most)).all()
        return [(row[0], row[1]) for row in rows]

    def _known(self) -> Any:
        try:
            return known_field(Field(self._context.field, 0), "") if self._context.field else None
        except SearchError:
            return None

    def _kind(self) -> FieldKind:
        known = self._known()
        if isinstance(known, ItemField):
            return known.kind
        if isinstance(known, NamedField) and known.group == "metrics":
            return FieldKind.NUMBER
        if isinstance(known, NamedField) and known.group == "params":
            rows = self._parameter_values(known.name)
            return FieldKind.NUMBER if any(row.number is not None for row in rows) else FieldKind.TEXT
        return FieldKind.TEXT

    def _values(self) -> Iterator[tuple[str, str]]:
        if self._context.function == "finding":
            yield from self._counted(FINDINGS.c.rule)
        elif self._context.function:
            yield from self._counted(ITEMS.c.name, ITEMS.c.name.icontains(self._context.typed, autoescape=True))
        else:
            yield from self._values_of(self._known())

    def _values_of(self, known: Any) -> Iterator[tuple[str, str]]:
        path = ".".join(self._context.field).lower().rstrip("s")
        if path in _NAMED_ITEMS:
            yield from self._counted(ITEMS.c.name, ITEMS.c.kind == _NAMED_ITEMS[path])
        elif isinstance(known, ItemField):
            if known.kind is FieldKind.BOOLEAN:
                yield from (("true", ""), ("false", ""))
            elif known.kind is FieldKind.TIME:
                yield from ((value_text(time), "") for time in _TIMES)
            elif known.kind is FieldKind.TEXT and getattr(known.column, "table", None) is ITEMS:
                yield from self._counted(known.column, ITEMS.c.kind == ItemKind.RUN, known.column != "")
        elif isinstance(known, NamedField) and known.group == "params":
            for row in self._parameter_values(known.name):
                number = row.number if row.number is None or row.type not in (WHOLE, BOOLEAN) else int(row.number)
                value = bool(number) if row.type == BOOLEAN else row.text if row.number is None else number
                yield value_text(value), f"{row.runs:,} runs"
        elif isinstance(known, NamedField) and known.group == "tags":
            yield from self._counted(TAGS.c.text, TAGS.c.name_id == self._name_id(known.name))

    def _parameter_values(self, name: str) -> Sequence[Any]:
        columns, runs = PARAMETERS.c, func.count().label("runs")
        statement = select(columns.type, columns.number, columns.text, runs).where(
            columns.name_id == self._name_id(name))
        return self._connection.execute(statement.group_by(columns.type, columns.number, columns.text).order_by(
            runs.desc(), columns.number, columns.text).limit(MOST)).all()

    def _counted(self, column: Any, *conditions: Any) -> Iterator[tuple[str, str]]:
        count = func.count()
        statement = select(column, count).where(*conditions).group_by(column).order_by(count.desc(), column)
        for value, found in self._connection.execute(statement.limit(MOST)):
            yield value_text(value), f"{found:,}"

    def _name_id(self, name: str) -> int:
        statement = select(NAMES.c.id).where(NAMES.c.text == storable_name(name))
        found: int | None = self._connection.execute(statement).scalars().first()
        return -1 if found is None else found

