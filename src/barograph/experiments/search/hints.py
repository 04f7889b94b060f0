"""Hints for a search that finds nothing: names and values that no item has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from barograph.errors import nearest
from barograph.experiments.schema import ITEMS, METRICS, NAMES, PARAMETERS, TAGS
from barograph.experiments.search.fields import GROUPS
from barograph.experiments.search.syntax import And, Call, Comparison, Condition, Field, Not, Operator, Or, Search
from barograph.experiments.writing import NUMBER, TEXT, WHOLE, storable, storable_name
from barograph.model.items import STATISTICS, ItemKind

_WHAT = {"params": ("parameter", PARAMETERS), "metrics": ("metric", METRICS), "tags": ("tag", TAGS)}
_NAMED_ITEMS = {"experiment": ItemKind.EXPERIMENT, "experiments": ItemKind.EXPERIMENT, "trial": ItemKind.TRIAL,
                "trials": ItemKind.TRIAL}
_BY_VALUE = (Operator.EQUAL, Operator.LESS, Operator.LESS_EQUAL, Operator.GREATER, Operator.GREATER_EQUAL)
_MOST_NAMES = 10_000
_MOST_NAMED = 10


def hints(connection: Connection, search: Search) -> list[str]:
    """Return a sentence for each unknown name, with the nearest ones, and for each value of another type."""
    sentences: dict[str, None] = {}
    for field, asked in _asked(search):
        group = GROUPS.get(field.path[0].lower(), "")
        if group in _WHAT:
            parts = field.path[1:-1] if group == "metrics" and field.path[-1] in STATISTICS else field.path[1:]
            if parts:
                sentences[missing_name(connection, group, ".".join(parts))] = None
                sentences[_other_type(connection, group, ".".join(parts), asked)] = None
        for value in _texts(asked) if ".".join(field.path).lower() in _NAMED_ITEMS else ():
            sentences[_missing_item(connection, _NAMED_ITEMS[".".join(field.path).lower()], value)] = None
    return [sentence for sentence in sentences if sentence]


def missing_name(connection: Connection, group: str, name: str) -> str:
    """Return a sentence if no item has a parameter, metric or tag of that name; else "".

    Args:
        connection: Connection to the catalog.
        group: "params", "metrics" or "tags".
        name: Its name.
    """
    what, table = _WHAT[group]
    of_its_kind = select(NAMES.c.text).where(select(table).where(table.c.name_id == NAMES.c.id).exists())
    if connection.execute(of_its_kind.where(NAMES.c.text == storable_name(name))).first():
        return ""
    known = connection.execute(of_its_kind.order_by(NAMES.c.id.desc()).limit(_MOST_NAMES)).scalars().all()
    return f'Nothing here has a {what} "{name}". {_nearest(name, known)}'.rstrip()


def _other_type(connection: Connection, group: str, name: str, asked: Comparison | None) -> str:
    """Return a sentence if a number is compared with a string, or a string with a number; else ""."""
    if group != "params" or asked is None or asked.operator not in (*_BY_VALUE, Operator.IN):
        return ""
    types = set(connection.execute(select(PARAMETERS.c.type).distinct().join(
        NAMES, NAMES.c.id == PARAMETERS.c.name_id).where(NAMES.c.text == storable_name(name))).scalars())
    is_text = {isinstance(value, str) for value in asked.values if value is not None and not isinstance(value, bool)}
    sign = asked.operator if asked.operator in _BY_VALUE else Operator.EQUAL
    value = asked.values[0] if asked.values else ""
    if is_text == {True} and types and types <= {NUMBER, WHOLE}:
        return f"The parameter {name} is a number. Write it without quotes: params.{name} {sign} {value}"
    if is_text == {False} and types == {TEXT}:
        return f"The parameter {name} is a string. Write it in quotes: params.{name} {sign} '{value}'"
    return ""


def _missing_item(connection: Connection, kind: ItemKind, name: str) -> str:
    of_its_kind = select(ITEMS.c.name).where(ITEMS.c.kind == kind, ITEMS.c.deleted_unix.is_(None))
    if connection.execute(of_its_kind.where(ITEMS.c.name == storable(name))).first():
        return ""
    known = connection.execute(of_its_kind.order_by(ITEMS.c.id.desc()).limit(_MOST_NAMES)).scalars().all()
    return f'No {kind} "{name}". {_nearest(name, known)}'.rstrip()


def _nearest(name: str, known: Sequence[str]) -> str:
    said = nearest(name, set(known))
    return said if len(known) <= _MOST_NAMED else said.partition("There ")[0]


def _texts(asked: Comparison | None) -> Iterator[str]:
    if asked is not None and asked.operator in (Operator.EQUAL, Operator.IN):
        yield from (value for value in asked.values if isinstance(value, str))


def _asked(search: Search) -> Iterator[tuple[Field, Comparison | None]]:
    if search.condition is not None:
        yield from ((found.field, found) for found in _comparisons(search.condition))
    yield from ((order.field, None) for order in search.orders)


def _comparisons(condition: Condition) -> Iterator[Comparison]:
    match condition:
        case Comparison():
            yield condition
        case Not(condition=inner):
            yield from _comparisons(inner)
        case And(conditions=several) | Or(conditions=several):
            for one in several:
                yield from _comparisons(one)
        case Call():
            return
