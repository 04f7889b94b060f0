"""Compiles the tree of a search to SQL conditions. Text of the user becomes a bound value only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, not_, or_, select, true

from barograph.experiments.schema import FINDINGS, ITEMS, LINKS, MEMBERS, METRICS, NOTES, PARAMETERS, RELATIONS, TAGS
from barograph.experiments.search.fields import FieldKind, ItemField, NamedField, RelatedField, known_field
from barograph.experiments.search.moments import unix_from_text
from barograph.experiments.search.patterns import why_slow
from barograph.experiments.search.syntax import And, Call, Comparison, Condition, Literal, Not, Operator, Or
from barograph.experiments.search.tokens import error_at
from barograph.experiments.writing import BOOLEAN, LIST, NOTHING, NUMBER, TEXT, WHOLE, storable_name
from barograph.model.items import ItemKind, Relation

Bool = ColumnElement[bool]

CALLS = {
    "finding": "finding('NAME or CODE'): the rule found a problem in the run; finding(): any rule did",
    "derived_from": "derived_from('NAME or ID'): derived from it, directly or not",
}
"""Functions of a search, with their usage."""


class Compiler:
    """Compiles the conditions of one search.

    Args:
        text: Text of the search, for messages.
        names: Returns the number of a parameter, metric or tag name; None if no item has it.
        now_unix: Current time, for "3 days ago".
    """

    def __init__(self, text: str, names: Callable[[str], int | None], now_unix: float) -> None:
        self._text = text
        self._names = names
        self._now_unix = now_unix

    def condition(self, condition: Condition) -> Bool:
        """Return the SQL condition on a row of `items`."""
        match condition:
            case And(conditions):
                return and_(*(self.condition(item) for item in conditions))
            case Or(conditions):
                return or_(*(self.condition(item) for item in conditions))
            case Not(inner):
                # A missing field makes a condition false, not null, so that its negation is true.
                return not_(func.coalesce(self.condition(inner), false()))
            case Call():
                return self._call(condition)
            case Comparison():
                return self._comparison(condition)

    def among(self, condition: Condition) -> Select[Any] | None:
        """Return a query for the items that match a condition if one index has them all; else None."""
        if not isinstance(condition, Comparison):
            return None
        field = known_field(condition.field, self._text)
        if isinstance(field, ItemField) and condition.operator in (Operator.EQUAL, Operator.IN):
            with_index = field.column is ITEMS.c.name or field.column is ITEMS.c.uid
            return select(ITEMS.c.id).where(self._comparison(condition)) if with_index else None
        if not isinstance(field, NamedField) or field.group not in ("params", "metrics", "tags"):
            return None
        table = _TABLES[field.group]
        return select(table.c.item_id).where(self._of_named(field, condition))

    def _comparison(self, asked: Comparison) -> Bool:
        field = known_field(asked.field, self._text)
        if isinstance(field, ItemField):
            return self._held(field.column, field.kind, asked)
        if isinstance(field, RelatedField):
            return _RELATED[field.group](self._held, asked)
        if field.group in ("inputs", "outputs"):
            return self._of_link(field, asked)
        table = _TABLES[field.group]
        return exists().where(table.c.item_id == ITEMS.c.id, self._of_named(field, asked)).correlate(ITEMS)

    def _of_named(self, field: NamedField, asked: Comparison) -> Bool:
        table, number = _TABLES[field.group], self._names(field.name)
        if number is None:
            return false()
        mine = table.c.name_id == number
        if asked.operator is Operator.EXISTS:
            return mine
        if field.group == "metrics":
            return and_(mine, self._held(METRICS.c[field.part], FieldKind.NUMBER, asked))
        if field.group == "tags":
            return and_(mine, self._held(TAGS.c.text, FieldKind.TEXT, asked))
        return and_(mine, self._of_parameter(asked))

    def _of_parameter(self, asked: Comparison) -> Bool:
        """Return the SQL condition on a row of `parameters`; numbers match numbers, strings match strings."""
        if asked.operator is Operator.IN:
            return or_(*(self._of_parameter(Comparison(asked.field, Operator.EQUAL, (value,), asked.position))
                         for value in asked.values))
        value = asked.values[0]
        columns = PARAMETERS.c
        if asked.operator in (Operator.CONTAINS, Operator.LIKE, Operator.MATCHES):
            return and_(columns.type.in_((TEXT, LIST)), self._held(columns.text, FieldKind.TEXT, asked))
        if value is None:
            return self._same(columns.type == NOTHING, asked.operator, asked)
        if isinstance(value, bool):
            number = self._held(columns.number, FieldKind.NUMBER, _with(asked, float(value)))
            return and_(columns.type == BOOLEAN, number)
        if isinstance(value, str):
            return and_(columns.type == TEXT, self._held(columns.text, FieldKind.TEXT, asked))
        return and_(columns.type.in_((NUMBER, WHOLE)), self._held(columns.number, FieldKind.NUMBER, asked))

    def _of_link(self, field: NamedField, asked: Comparison) -> Bool:
        mine = and_(LINKS.c.item_id == ITEMS.c.id, LINKS.c.role == field.group.removesuffix("s"),
                    LINKS.c.name == storable_name(field.name))
        if asked.operator is not Operator.EXISTS:
            kind = FieldKind.NUMBER if field.part == "size" else FieldKind.TEXT
            column = LINKS.c.size_bytes if field.part == "size" else LINKS.c[field.part]
            mine = and_(mine, self._held(column, kind, asked))
        return exists().where(mine).correlate(ITEMS)

    def _held(self, column: ColumnElement[Any], kind: FieldKind, asked: Comparison) -> Bool:
        operator = asked.operator
        if operator is Operator.EXISTS:
            return and_(column.is_not(None), column != "") if kind is FieldKind.TEXT else column.is_not(None)
        if operator in (Operator.CONTAINS, Operator.LIKE, Operator.MATCHES):
            return self._as_text(column, kind, asked)
        if operator is Operator.IN:
            parts = (Comparison(asked.field, Operator.EQUAL, (value,), asked.position) for value in asked.values)
            return or_(*(self._held(column, kind, part) for part in parts))
        value = self._value(kind, asked.values[0], asked)
        if value is None:
            return self._same(column.is_(None), operator, asked)
        if isinstance(value, float) and math.isnan(value):
            return self._same(column.is_(None), operator, asked)
        return _SQL[operator](column, value)

    def _same(self, condition: Bool, operator: Operator, asked: Comparison) -> Bool:
        if operator is Operator.EQUAL:
            return condition
        if operator is Operator.UNEQUAL:
            return not_(condition)
        raise error_at(self._text, asked.position, "this cannot be ordered; use only = and !=")

    def _as_text(self, column: ColumnElement[Any], kind: FieldKind, asked: Comparison) -> Bool:
        value = asked.values[0]
        if kind is not FieldKind.TEXT:
            raise error_at(self._text, asked.field.position, f"{asked.field} is not a string; compare it with = < >")
        if not isinstance(value, str):
            raise error_at(self._text, asked.position, "expected a 'string'")
        if asked.operator is Operator.CONTAINS:
            return column.icontains(value, autoescape=True)
        if asked.operator is Operator.LIKE:
            return column.like(value)
        try:
            slow = why_slow(value)
            re.compile(value)
        except re.error as error:
            raise error_at(self._text, asked.position, f"not a valid regular expression: {error}") from None
        if slow:
            raise error_at(self._text, asked.position, f"this regular expression could be very slow: {slow}")
        return column.regexp_match(value)

    def _value(self, kind: FieldKind, value: Literal, asked: Comparison) -> Literal:
        if value is None:
            return None
        if kind is FieldKind.TIME and isinstance(value, str):
            found = unix_from_text(value, self._now_unix)
            if found is None:
                raise error_at(self._text, asked.position, "not a valid time; write '2026-11-22', "
                                                           "'2026-11-22T10:30' or '3 days ago'")
            return found
        if kind is FieldKind.TEXT and not isinstance(value, str):
            raise error_at(self._text, asked.position, f"{asked.field} is a string; write '{value}'")
        if kind is FieldKind.BOOLEAN and not isinstance(value, bool):
            raise error_at(self._text, asked.position, f"{asked.field} is true or false")
        if kind in (FieldKind.NUMBER, FieldKind.TIME) and (isinstance(value, str | bool)):
            raise error_at(self._text, asked.position, f"{asked.field} is a number")
        return value

    def _call(self, call: Call) -> Bool:
        if call.name == "finding":
            return self._finding(call)
        if call.name == "derived_from":
            return self._derived_from(call)
        raise error_at(self._text, call.position, f'no function "{call.name}()"; available: {", ".join(CALLS)}')

    def _finding(self, call: Call) -> Bool:
        mine = FINDINGS.c.item_id == ITEMS.c.id
        for argument in call.arguments:
            if not isinstance(argument, str):
                raise error_at(self._text, call.position, f"write {CALLS['finding']}")
        if call.arguments:
            wanted = [str(argument) for argument in call.arguments]
            mine = and_(mine, or_(FINDINGS.c.code.in_([item.upper() for item in wanted]),
                                  FINDINGS.c.rule.in_([item.lower() for item in wanted])))
        return exists().where(mine).correlate(ITEMS)

    def _derived_from(self, call: Call) -> Bool:
        if len(call.arguments) != 1 or not isinstance(call.arguments[0], str):
            raise error_at(self._text, call.position, f"write {CALLS['derived_from']}")
        said = call.arguments[0]
        origins = select(ITEMS.c.uid).where(or_(ITEMS.c.uid == said, ITEMS.c.name == said))
        came = select(RELATIONS.c.source.label("uid")).where(
            RELATIONS.c.relation == Relation.DERIVED_FROM, RELATIONS.c.target.in_(origins)
        ).cte("came", recursive=True)
        came = came.union(select(RELATIONS.c.source).where(
            RELATIONS.c.relation == Relation.DERIVED_FROM, RELATIONS.c.target == came.c.uid
        ))
        return ITEMS.c.uid.in_(select(came.c.uid))


def _with(asked: Comparison, value: Literal) -> Comparison:
    return Comparison(asked.field, asked.operator, (value,), asked.position)


def _of_trial(held: Callable[..., Bool], asked: Comparison) -> Bool:
    trials = ITEMS.alias("trials")
    return or_(
        exists().where(MEMBERS.c.component == ITEMS.c.uid, MEMBERS.c.trial == trials.c.uid,
                       held(trials.c.name, FieldKind.TEXT, asked)).correlate(ITEMS),
        and_(ITEMS.c.kind == ItemKind.TRIAL, held(ITEMS.c.name, FieldKind.TEXT, asked)),
    )


def _of_experiment(held: Callable[..., Bool], asked: Comparison) -> Bool:
    trials, experiments = ITEMS.alias("trials"), ITEMS.alias("experiments")
    return or_(
        exists().where(MEMBERS.c.component == ITEMS.c.uid, MEMBERS.c.trial == trials.c.uid,
                       trials.c.parent == experiments.c.uid,
                       held(experiments.c.name, FieldKind.TEXT, asked)).correlate(ITEMS),
        exists().where(ITEMS.c.parent == experiments.c.uid,
                       held(experiments.c.name, FieldKind.TEXT, asked)).correlate(ITEMS),
        and_(ITEMS.c.kind == ItemKind.EXPERIMENT, held(ITEMS.c.name, FieldKind.TEXT, asked)),
    )


def _of_notes(held: Callable[..., Bool], asked: Comparison) -> Bool:
    said = true() if asked.operator is Operator.EXISTS else held(NOTES.c.text, FieldKind.TEXT, asked)
    return exists().where(NOTES.c.item_id == ITEMS.c.id, said).correlate(ITEMS)


_RELATED: Mapping[str, Callable[[Callable[..., Bool], Comparison], Bool]] = {
    "trial": _of_trial, "experiment": _of_experiment, "notes": _of_notes,
}
_TABLES = {"params": PARAMETERS, "metrics": METRICS, "tags": TAGS}
_SQL: Mapping[Operator, Callable[[ColumnElement[Any], Any], Bool]] = {
    Operator.EQUAL: lambda column, value: column == value,
    Operator.UNEQUAL: lambda column, value: column != value,
    Operator.LESS: lambda column, value: column < value,
    Operator.LESS_EQUAL: lambda column, value: column <= value,
    Operator.GREATER: lambda column, value: column > value,
    Operator.GREATER_EQUAL: lambda column, value: column >= value,
}
