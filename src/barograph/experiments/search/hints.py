"""What may be wrong with a search that nothing answers: names that nothing in the catalog has."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from barograph.errors import nearest
from barograph.experiments.schema import METRICS, NAMES, PARAMETERS, TAGS
from barograph.experiments.search.syntax import And, Call, Comparison, Condition, Field, Not, Or, Search
from barograph.experiments.writing import storable_name
from barograph.model.items import STATISTICS

_WHAT = {"params": ("parameter", PARAMETERS), "metrics": ("metric", METRICS), "tags": ("tag", TAGS)}
_MOST_NAMES = 10_000
_MOST_TOLD = 10


def hints(connection: Connection, search: Search) -> list[str]:
    """Return a sentence for each parameter, metric or tag of a search that nothing has; the nearest names are said."""
    told: dict[str, None] = {}
    for field in _fields(search):
        if field.path[0] not in _WHAT:
            continue
        what, table = _WHAT[field.path[0]]
        parts = field.path[1:-1] if field.path[0] == "metrics" and field.path[-1] in STATISTICS else field.path[1:]
        name = storable_name(".".join(parts))
        of_its_kind = select(NAMES.c.text).where(select(table).where(table.c.name_id == NAMES.c.id).exists())
        if not parts or connection.execute(of_its_kind.where(NAMES.c.text == name)).first():
            continue
        known = connection.execute(of_its_kind.order_by(NAMES.c.id.desc()).limit(_MOST_NAMES)).scalars().all()
        said = nearest(name, known)
        told[f'Nothing here has a {what} "{name}". {said if len(known) <= _MOST_TOLD else said.partition("There ")[0]}'
             .rstrip()] = None
    return list(told)


def _fields(search: Search) -> Iterator[Field]:
    if search.condition is not None:
        yield from _fields_in(search.condition)
    yield from (order.field for order in search.orders)


def _fields_in(condition: Condition) -> Iterator[Field]:
    match condition:
        case Comparison(field=field):
            yield field
        case Not(condition=inner):
            yield from _fields_in(inner)
        case And(conditions=several) | Or(conditions=several):
            for one in several:
                yield from _fields_in(one)
        case Call():
            return
