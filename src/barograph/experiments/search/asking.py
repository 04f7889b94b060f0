"""Runs a search: returns the items it finds, in its order, while reading as little as possible.

A catalog may have a million components, and a search may want the best hundred. If no condition is rare, items are
read in the requested order until there are enough. If one is rare, its items are read and sorted. Whether a condition
is rare is found by counting up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, not_, select, true

from barograph.experiments.schema import ITEMS, MEMBERS, METRICS, NAMES, PARAMETERS, TAGS
from barograph.experiments.search.compiling import Bool, Compiler
from barograph.experiments.search.fields import ItemField, NamedField, known_field
from barograph.experiments.search.syntax import And, Comparison, Condition, Field, Not, Or, Order, Search
from barograph.experiments.search.tokens import error_at
from barograph.experiments.writing import storable_name
from barograph.model.items import ItemKind

RARE = 2_000
"""This many items are sorted in imperceptible time."""

COMPONENTS = (ItemKind.COMPONENT, ItemKind.RUN)
"""Kinds that a search returns by default."""


_NEWEST = (ITEMS.c.created_unix.desc(), ITEMS.c.id.desc())


def found_ids(
    connection: Connection, search: Search, *, now_unix: float, kinds: Sequence[ItemKind] = COMPONENTS,
    experiment: str = "",
) -> list[int]:
    """Return the row numbers of the items that a search finds, in its order.

    Archived or deleted items are included only if the search refers to that.

    Args:
        connection: Connection to the catalog.
        search: The search.
        now_unix: Current time.
        kinds: Kinds to return, unless the search has a condition on `kind`.
        experiment: ID of the experiment to search in; "": all.

    Raises:
        SearchError: A field does not exist, or is compared with a value of another type.
    """
    return _Asking(connection, search, now_unix, kinds, experiment).ids()


class _Asking:
    def __init__(
        self, connection: Connection, search: Search, now_unix: float, kinds: Sequence[ItemKind], experiment: str
    ) -> None:
        self._kinds = kinds
        self._experiment = experiment
        self._connection = connection
        self._search = search
        self._names: dict[str, int | None] = {}
        self._compiler = Compiler(search.text, self._name_id, now_unix)
        self._conjuncts = _conjuncts(search.condition)

    def ids(self) -> list[int]:
        rare = [self._rare(condition) for condition in self._conjuncts]
        wanted = [self._compiler.condition(condition) if ids is None else ITEMS.c.id.in_(sorted(ids))
                  for condition, ids in zip(self._conjuncts, rare, strict=True)]
        wanted += self._usual(few=any(ids is not None for ids in rare))
        limit, offset = self._search.limit, self._search.offset
        found: list[int] = []
        for statement in self._in_order(wanted):
            if limit is not None:
                statement = statement.limit(limit + offset - len(found))
            found += self._connection.execute(statement).scalars()
            if limit is not None and len(found) >= limit + offset:
                break
        return found[offset:]

    def _rare(self, condition: Condition) -> set[int] | None:
        """Return the row numbers of the items that match a condition if there are few; else None."""
        if isinstance(condition, Or):
            found: set[int] = set()
            for part in condition.conditions:
                some = self._rare(part)
                if some is None or len(found | some) >= RARE:
                    return None
                found |= some
            return found
        among = self._compiler.among(condition)
        if among is None:
            return None
        ids = self._connection.execute(among.limit(RARE)).scalars().all()
        return set(ids) if len(ids) < RARE else None

    def _usual(self, *, few: bool) -> Iterator[Bool]:
        """Yield the implicit conditions.

        Args:
            few: Other conditions leave few items. They should be looked up by number, so the conditions are written so
                that the database cannot use an index for them.
        """
        asked = {field.path[0].lower() for field in _fields(self._search.condition)}
        if "kind" not in asked:
            # Nearly all items are components: an index would lead to all of them, in no useful order.
            kind = ITEMS.c.kind.concat("") if few or self._kinds == COMPONENTS else ITEMS.c.kind
            yield kind.in_(self._kinds)
        if self._experiment:
            trials = ITEMS.alias("trials_of_experiment")
            members = select(MEMBERS.c.component).join(trials, trials.c.uid == MEMBERS.c.trial)
            yield ITEMS.c.uid.in_(members.where(trials.c.parent == self._experiment))
        if "archived" not in asked:
            yield not_(func.coalesce(ITEMS.c.archived, true())) if few else not_(ITEMS.c.archived)
        if "deleted" not in asked:
            yield ITEMS.c.deleted_unix.is_(None)

    def _in_order(self, wanted: Sequence[Bool]) -> Iterator[Select[Any]]:
        """Yield the queries in order: items without the sort field come last."""
        newest = _NEWEST
        if not self._search.orders:
            yield select(ITEMS.c.id).where(*wanted).order_by(*newest)
            return
        first, *others = self._search.orders
        later = [part for order in others for part in self._sorted_by(order)]
        field = known_field(first.field, self._search.text)
        if not isinstance(field, NamedField):
            yield select(ITEMS.c.id).where(*wanted).order_by(*self._sorted_by(first), *later, *newest)
            return
        yield from self._by_name(first, field, wanted, [*later, *newest])

    def _by_name(
        self, order: Order, field: NamedField, wanted: Sequence[Bool], later: Sequence[ColumnElement[Any]]
    ) -> Iterator[Select[Any]]:
        table, column = self._column_of(order.field, field)
        mine = and_(table.c.item_id == ITEMS.c.id, table.c.name_id == self._name_id(field.name), column.is_not(None))
        by = column.desc() if order.descending else column.asc()
        if self._name_id(field.name) is not None:
            joined = select(ITEMS.c.id).select_from(table.join(ITEMS, table.c.item_id == ITEMS.c.id))
            yield joined.where(mine, *wanted).order_by(by, *later)
        yield select(ITEMS.c.id).where(*wanted, not_(exists().where(mine).correlate(ITEMS))).order_by(*later)

    def _sorted_by(self, order: Order) -> tuple[ColumnElement[Any], ...]:
        field = known_field(order.field, self._search.text)
        if isinstance(field, ItemField):
            column: ColumnElement[Any] = field.column
            if not getattr(column, "nullable", True):
                # A test for null, which is always false, would prevent the use of the index.
                return (column.desc() if order.descending else column.asc(),)
        elif isinstance(field, NamedField):
            table, value = self._column_of(order.field, field)
            column = select(value).where(
                table.c.item_id == ITEMS.c.id, table.c.name_id == self._name_id(field.name)
            ).correlate(ITEMS).scalar_subquery()
        else:
            raise self._not_sortable(order.field)
        return column.is_(None), column.desc() if order.descending else column.asc()

    def _column_of(self, asked: Field, field: NamedField) -> tuple[Any, ColumnElement[Any]]:
        if field.group == "metrics":
            return METRICS, METRICS.c[field.part]
        if field.group == "tags":
            return TAGS, TAGS.c.text
        if field.group == "params":
            numbers = select(PARAMETERS.c.item_id).where(
                PARAMETERS.c.name_id == self._name_id(field.name), PARAMETERS.c.number.is_not(None)
            ).limit(1)
            is_number = self._connection.execute(numbers).first() is not None
            return PARAMETERS, PARAMETERS.c.number if is_number else PARAMETERS.c.text
        raise self._not_sortable(asked)

    def _not_sortable(self, field: Field) -> Exception:
        return error_at(self._search.text, field.position, f"cannot sort by {field}; sort by a parameter, a metric, "
                                                           "a tag or a field such as created")

    def _name_id(self, name: str) -> int | None:
        if name not in self._names:
            statement = select(NAMES.c.id).where(NAMES.c.text == storable_name(name))
            self._names[name] = self._connection.execute(statement).scalars().first()
        return self._names[name]


def _conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    if condition is None:
        return ()
    return condition.conditions if isinstance(condition, And) else (condition,)


def _fields(condition: Condition | None) -> Iterator[Field]:
    match condition:
        case And(conditions) | Or(conditions):
            for item in conditions:
                yield from _fields(item)
        case Not(inner):
            yield from _fields(inner)
        case Comparison(field=field):
            yield field
